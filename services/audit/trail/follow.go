package trail

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
)

// maxPosition limits the bytes of a position of Follow, because it is part of a URL.
const maxPosition = 8 << 10

// followBytes is about how many bytes of rows Follow returns. Every answer of a service is
// limited (docs/reference/limits.md), and a row can have 8 KiB of arguments.
const followBytes = 4 << 20

// Follow returns the rows that were appended after a position, and the position after them. An
// empty position returns no rows and the position of now. more means that further rows are there
// already. The position holds the end of each chain, so no row is left out or returned twice,
// however late an event arrives.
//
// One answer reads at most MaxPage rows, and returns about followBytes at most. Each tenant that
// has new rows gets an equal part of both, so a busy tenant does not hold back the others.
//
// Follow leaves out the questions of followers themselves, which are in the trail as well. Limit
// and Cursor of the filter are not used. Without All it leaves out the beginnings of calls, unless
// the filter asks for them.
func Follow(ctx context.Context, s Store, f Filter, after string) (rows []Row, next string, more bool, err error) {
	ends, err := s.Chains(ctx)
	if err != nil {
		return nil, "", false, err
	}
	position := map[string]int64{}
	if after != "" {
		if position, err = openPosition(after); err != nil {
			return nil, "", false, err
		}
	}
	ends = slices.DeleteFunc(ends, func(end Chain) bool {
		known := position[end.Tenant]
		if f.admitsTenant(end.Tenant) && (after == "" || end.Seq <= known) {
			position[end.Tenant] = end.Seq
		}
		return !f.admitsTenant(end.Tenant) || end.Seq <= position[end.Tenant]
	})
	for _, end := range ends {
		part := max(1, MaxPage/len(ends))
		found, err := s.Rows(ctx, end.Tenant, position[end.Tenant], part)
		if err != nil {
			return nil, "", false, err
		}
		cut, size := len(found) == part, 0
		for i := range found {
			row := &found[i]
			if size >= followBytes/len(ends) {
				cut = true
				break
			}
			position[end.Tenant] = row.Seq
			if f.Admits(row) {
				rows, size = append(rows, *row), size+row.size()
			}
		}
		if more = more || cut; !cut { // rows that are missing were pruned
			position[end.Tenant] = max(position[end.Tenant], end.Seq)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return a.Time.Compare(b.Time) })
	text, err := json.Marshal(position, json.Deterministic(true))
	if err != nil {
		return nil, "", false, err
	}
	if next = base64.RawURLEncoding.EncodeToString(text); len(next) > maxPosition {
		return nil, "", false, fmt.Errorf("%w: the trail has %d tenants, too many to follow at once; follow one with tenant", ErrFilter, len(position))
	}
	return rows, next, more, nil
}

func openPosition(text string) (position map[string]int64, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(text) <= maxPosition {
		err = json.Unmarshal(raw, &position)
	}
	if err != nil || position == nil {
		return nil, fmt.Errorf("%w: after is not the next of an earlier answer", ErrFilter)
	}
	return position, nil
}

func (f Filter) admitsTenant(tenant string) bool {
	return f.Tenant == "" || f.Tenant == tenant || f.Tenant == NoTenant && tenant == ""
}

// Admits reports whether Follow returns a row. It means the same as SQL, except for All.
func (f Filter) Admits(r *Row) bool {
	for _, c := range []struct{ want, has string }{
		{f.Principal, r.Principal}, {f.Method, r.Method}, {f.Name, r.Name}, {f.Outcome, r.Outcome}, {f.Door, r.Door}, {f.Parent, r.Parent},
	} {
		if c.want != "" && c.want != c.has {
			return false
		}
	}
	switch {
	case !f.admitsTenant(r.Tenant), !f.Since.IsZero() && r.Time.Before(f.Since), !f.Until.IsZero() && !r.Time.Before(f.Until):
		return false
	case f.Call != "" && !slices.Contains([]string{f.Call + "-1", f.Call + "-2", f.Call + "-3"}, r.ID):
		return false
	case !f.All && r.Outcome == Begun && f.Outcome != Begun:
		return false
	}
	return f.Name == tailName || !r.question()
}

// size is about how many bytes a row has as JSON.
func (r *Row) size() int {
	return 512 + len(r.Arguments) + len(r.Name) + len(r.Principal) + len(r.ClientName) + len(r.more())
}

const (
	tailMethod = "busbar/audit"
	tailName   = "tail"
)

// question reports whether a row is an answered question of a follower. A refused one is an
// event like others: it may be an attack.
func (r *Row) question() bool {
	return r.Method == tailMethod && r.Name == tailName && r.Outcome == "ok"
}
