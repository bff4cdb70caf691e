package trail

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxPage is the most rows of one List.
//
//limit:message events in a page of the audit trail
const MaxPage = 1000

// NoTenant is the filter for events without a tenant.
const NoTenant = "-"

// Filter says which rows to list. Its zero value admits every call.
type Filter struct {
	// Since is the first moment, Until the first moment after the range. Zero: no limit.
	Since, Until time.Time
	// An empty field admits any value.
	Tenant, Principal, Method, Name, Outcome, Door, Call string
	// Parent admits the calls that this call of a tool made.
	Parent string
	// All also admits the beginnings of calls whose end is recorded.
	All bool
	// NoQuestions leaves out the answered questions of followers.
	NoQuestions bool
	// Limit is at most MaxPage; zero is 100.
	Limit int
	// Cursor is the one that the page before returned; empty for the first page.
	Cursor string
}

// SQL is the filter as a condition on table audit_event, with its parameters. parameter
// writes the placeholder of the n-th one, from 1.
func (f Filter) SQL(parameter func(n int) string) (where string, args []any, err error) {
	var conditions []string
	arg := func(v any) string {
		args = append(args, v)
		return parameter(len(args))
	}
	if !f.Since.IsZero() {
		conditions = append(conditions, "time >= "+arg(f.Since.UnixNano()))
	}
	if !f.Until.IsZero() {
		conditions = append(conditions, "time < "+arg(f.Until.UnixNano()))
	}
	if f.Tenant == NoTenant {
		conditions = append(conditions, "tenant = ''")
		f.Tenant = ""
	}
	for _, c := range []struct{ column, value string }{
		{"tenant", f.Tenant}, {"principal", f.Principal}, {"method", f.Method}, {"name", f.Name},
		{"outcome", f.Outcome}, {"door", f.Door},
	} {
		if c.value != "" {
			conditions = append(conditions, c.column+" = "+arg(c.value))
		}
	}
	if f.Call != "" {
		conditions = append(conditions, "id IN ("+arg(f.Call+"-1")+", "+arg(f.Call+"-2")+", "+arg(f.Call+"-3")+")")
	}
	if f.Parent != "" {
		// Parent has letters and digits alone, so no part of it is a pattern.
		conditions = append(conditions, "more LIKE "+arg(`%"parent":"`+f.Parent+`"%`))
	}
	if !f.All {
		conditions = append(conditions, "NOT (outcome = '"+Begun+"' AND EXISTS (SELECT 1 FROM audit_event AS e WHERE e.id = audit_event.call || '-2' AND e.edge = audit_event.edge))")
	}
	if f.NoQuestions {
		conditions = append(conditions, "NOT (method = '"+tailMethod+"' AND name = '"+tailName+"' AND outcome = 'ok')")
	}
	if f.Cursor != "" {
		at, id, edge, err := openCursor(f.Cursor)
		if err != nil {
			return "", nil, err
		}
		conditions = append(conditions, "(time, id, edge) < ("+arg(at)+", "+arg(id)+", "+arg(edge)+")")
	}
	if len(conditions) == 0 {
		return "true", nil, nil
	}
	return strings.Join(conditions, " AND "), args, nil
}

// Page is how many rows to return.
func (f Filter) Page() int {
	if f.Limit <= 0 {
		return 100
	}
	return min(f.Limit, MaxPage)
}

// Next cuts the rows, which are up to one more than a page, to a page. It returns the
// cursor of the next page.
func (f Filter) Next(rows []Row) ([]Row, string) {
	if len(rows) <= f.Page() {
		return rows, ""
	}
	rows = rows[:f.Page()]
	last := rows[len(rows)-1]
	return rows, base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s %s", last.Time.UnixNano(), last.ID, last.Edge))
}

func openCursor(cursor string) (at int64, id, edge string, err error) {
	wrong := fmt.Errorf("%w: the cursor is not one that a page ended with", ErrFilter)
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", "", wrong
	}
	number, id, ok := strings.Cut(string(text), " ")
	id, edge, _ = strings.Cut(id, " ")
	if at, err = strconv.ParseInt(number, 10, 64); err != nil || !ok || clean(string(text)) != string(text) {
		return 0, "", "", wrong
	}
	return at, id, edge, nil
}

// ParseFilter reads a filter from text parameters: since and until (RFC 3339, or
// how long ago, such as 90m or 7d), tenant, principal, method, name, outcome,
// door, call, parent, limit, cursor, all, and questions (false leaves out followers' own).
// An error wraps ErrFilter.
func ParseFilter(p map[string]string, now time.Time) (f Filter, err error) {
	for key, value := range p {
		if clean(value) != value {
			return f, fmt.Errorf("%w: %s is not valid text", ErrFilter, key)
		}
		switch key {
		case "since":
			f.Since, err = moment(value, now)
		case "until":
			f.Until, err = moment(value, now)
		case "tenant":
			f.Tenant = value
		case "principal":
			f.Principal = value
		case "method":
			f.Method = value
		case "name":
			f.Name = value
		case "outcome":
			f.Outcome = value
		case "door":
			f.Door = value
		case "call":
			f.Call = value
		case "parent":
			if f.Parent = value; strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
				err = fmt.Errorf("%q is not the id of a call", value)
			}
		case "cursor":
			f.Cursor = value
		case "all":
			f.All, err = strconv.ParseBool(value)
		case "questions":
			questions, e := strconv.ParseBool(value)
			f.NoQuestions, err = !questions, e
		case "limit":
			if f.Limit, err = strconv.Atoi(value); f.Limit < 1 || f.Limit > MaxPage {
				err = fmt.Errorf("use 1 to %d", MaxPage)
			}
		default:
			err = fmt.Errorf("there is no such filter")
		}
		if err != nil {
			return f, fmt.Errorf("%w: %s: %v", ErrFilter, key, err)
		}
	}
	return f, nil
}

func moment(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor how long ago, such as 90m or 7d", s)
}
