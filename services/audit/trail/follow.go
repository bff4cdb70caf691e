package trail

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// maxPosition limits the bytes of a position of Follow, because it is part of a URL.
const maxPosition = 8 << 10

// Follow returns the rows that were appended after a position, and the position after them. An
// empty position returns no rows and the position of now. more means that further rows are there
// already. The position holds the end of each chain, so no row is left out or returned twice,
// however late an event arrives.
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
	for _, end := range ends {
		if !f.admitsTenant(end.Tenant) {
			continue
		}
		known := position[end.Tenant]
		if after == "" || end.Seq <= known {
			position[end.Tenant] = end.Seq
			continue
		}
		if more = more || len(rows) >= MaxPage; more {
			break
		}
		found, err := s.Rows(ctx, end.Tenant, known, MaxPage)
		if err != nil {
			return nil, "", false, err
		}
		more = len(found) == MaxPage
		if len(found) > 0 {
			position[end.Tenant] = found[len(found)-1].Seq
		}
		rows = append(rows, slices.DeleteFunc(found, func(r Row) bool { return !f.Admits(&r) })...)
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return a.Time.Compare(b.Time) })
	text, err := json.Marshal(position, json.Deterministic(true))
	if err != nil {
		return nil, "", false, err
	}
	if next = base64.RawURLEncoding.EncodeToString(text); len(next) > maxPosition {
		return nil, "", false, fmt.Errorf("%w: the trail has %d tenants, too many to follow at once; follow one with tenant", ErrFilter, len(ends))
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
	return f.Name == tailName || r.Name != tailName || !strings.HasPrefix(r.Method, "busbar/audit")
}

// tailName is the name of a question of a follower in the trail.
const tailName = "tail"
