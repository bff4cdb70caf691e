package mcp

// Limits bound one message. A zero field means the default.
type Limits struct {
	// Bytes of the whole message. Default 960 KiB: a NATS message of 1 MiB less
	// its envelope.
	Bytes int
	// Depth of nesting. Default 64.
	Depth int
	// Values in all. Default 20,000.
	Values int
	// Members of one object. Default 1,000.
	Members int
	// NumberBytes of one number. Default 40. Its exponent has at most three
	// digits, whatever this is.
	NumberBytes int
	// StringBytes of one string, as written. Default 512 KiB.
	StringBytes int
	// IDBytes of a string id, as written without quotes. Default 128.
	IDBytes int
}

// DefaultLimits returns the limits that zero fields stand for.
func DefaultLimits() Limits {
	return Limits{
		Bytes: 960 << 10, Depth: 64, Values: 20_000, Members: 1_000,
		NumberBytes: 40, StringBytes: 512 << 10, IDBytes: 128,
	}
}

func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ v, d *int }{
		{&l.Bytes, &d.Bytes}, {&l.Depth, &d.Depth}, {&l.Values, &d.Values}, {&l.Members, &d.Members},
		{&l.NumberBytes, &d.NumberBytes}, {&l.StringBytes, &d.StringBytes}, {&l.IDBytes, &d.IDBytes},
	} {
		if *f.v == 0 {
			*f.v = *f.d
		}
	}
	return l
}
