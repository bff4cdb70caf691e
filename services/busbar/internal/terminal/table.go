package terminal

import "strings"

// Table lays rows out in columns that fit a width. Make it with NewTable; then Line writes the
// head and the rows, also rows that come later.
type Table struct {
	widths []int
	right  []bool
}

// Cut says how far a column may become narrower if a table is too wide.
type Cut struct{ Column, Least int }

// NewTable returns a table for rows of cells, which are safe to show. A title that starts with
// ">" marks a column of numbers, which is aligned to the right. No column is wider than
// most. If the table is wider than limit, the cuts are made in their order.
func NewTable(titles []string, rows [][]string, limit, most int, cuts ...Cut) *Table {
	t := &Table{widths: make([]int, len(titles)), right: make([]bool, len(titles))}
	for i, title := range titles {
		title, t.right[i] = strings.CutPrefix(title, ">")
		t.widths[i] = Cells(title)
		for _, row := range rows {
			t.widths[i] = max(t.widths[i], min(Cells(row[i]), most))
		}
	}
	over := 2*(len(titles)-1) - limit
	for _, w := range t.widths {
		over += w
	}
	for _, c := range cuts {
		narrow := min(max(over, 0), max(t.widths[c.Column]-c.Least, 0))
		t.widths[c.Column] -= narrow
		over -= narrow
	}
	return t
}

// Line is a row with its line break. paint gives a cell its colour; nil leaves it plain.
func (t *Table) Line(row []string, paint func(column int, text string) string) string {
	var b strings.Builder
	for i, cell := range row {
		cell = Clip(strings.TrimPrefix(cell, ">"), t.widths[i])
		space := strings.Repeat(" ", max(t.widths[i]-Cells(cell), 0))
		if t.right[i] {
			b.WriteString(space)
		}
		if paint != nil {
			b.WriteString(paint(i, cell))
		} else {
			b.WriteString(cell)
		}
		if i < len(row)-1 {
			if !t.right[i] {
				b.WriteString(space)
			}
			b.WriteString("  ")
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}
