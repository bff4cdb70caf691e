package resource

// Cursors, for their own tests.
var (
	MakeCursor  = makeCursor
	ParseCursor = parseCursor
)
