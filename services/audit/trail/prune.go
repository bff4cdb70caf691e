package trail

// PruneStep bounds the rows that one transaction of a store removes.
const PruneStep = 10_000

// PruneInSteps has some remove rows of each chain until it finds fewer than
// PruneStep, and returns how many went. An error ends it; what is removed by then
// stays removed.
func PruneInSteps(chains []Chain, some func(tenant string) (int64, error)) (total int64, err error) {
	for _, c := range chains {
		for n := int64(PruneStep); n >= PruneStep; {
			if n, err = some(c.Tenant); err != nil {
				return total + n, err
			}
			total += n
		}
	}
	return total, nil
}
