package definition

import "unicode"

// Seen reports whether a person sees a character: models read others, too, in which
// whole texts can be hidden.
func Seen(r rune) bool { return unicode.IsGraphic(r) && !unicode.In(r, unseen...) }

// unseen are graphic characters of which nothing is seen: selectors of variants, and
// fillers.
var unseen = []*unicode.RangeTable{unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point}
