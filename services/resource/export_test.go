package resource

// Cursors, to be tested by themselves.
var (
	MakeCursor  = makeCursor
	ParseCursor = parseCursor
)
