package client

import (
	"cmp"
	"slices"
	"strings"
)

// maxNear is how many names are suggested.
const maxNear = 3

// nearest returns the names that a mistyped one may have meant, the likeliest first.
func nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	typed := strings.ToLower(name)
	for _, k := range known {
		have := strings.ToLower(k)
		d := distance(typed, have)
		part := len(typed) >= 3 && strings.Contains(have, typed) || len(have) >= 3 && strings.Contains(typed, have)
		switch {
		case d <= max(len(typed)/3, 1): // a slip of the finger
		case part: // "entities" for "extract_entities": after all slips
			d += 100
		default:
			continue
		}
		found = append(found, candidate{k, d})
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range found[:min(len(found), maxNear)] {
		names = append(names, c.name)
	}
	return names
}

// distance is the number of characters to insert, delete, replace or swap with
// their neighbour to make b of a (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}
