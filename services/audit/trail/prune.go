package trail

// PruneStep bounds the rows that one transaction of a store removes.
const PruneStep = 10_000

// PruneInSteps calls some for each chain until it removes fewer than PruneStep rows, and
// returns how many rows were removed. An error ends it; the rows that are removed by then
// stay removed.
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
