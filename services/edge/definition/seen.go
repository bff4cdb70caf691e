package definition

import "unicode"

// Seen reports whether people can see a character. Models also read invisible ones, which can hide whole
// texts.
func Seen(r rune) bool { return unicode.IsGraphic(r) && !unicode.In(r, unseen...) }

// unseen lists invisible graphic characters: variation selectors and fillers.
var unseen = []*unicode.RangeTable{unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point}
