package trail

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Report is the result of checking a trail.
type Report struct {
	OK bool `json:"ok"`
	// Chains are all chains, with a problem or without, in the order of tenants.
	Chains []ChainReport `json:"chains"`
	// Unknown says, one sentence each, which questions no check of this trail can answer.
	Unknown []string `json:"unknown"`
}

// ChainReport is the result of checking one tenant's chain.
type ChainReport struct {
	Tenant string `json:"tenant"`
	// First and Last are the numbers of the rows checked; 0 without rows.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// Signed is the last row that a checkpoint covers.
	Signed int64 `json:"signed"`
	// Problem is the first problem; nil without one.
	Problem *Problem `json:"problem,omitzero"`
}

// Problem is the place where a chain was tampered with.
type Problem struct {
	// Seq is the first bad row, and ID its event, if it is there.
	Seq  int64  `json:"seq"`
	ID   string `json:"id,omitzero"`
	What string `json:"what"`
}

const page = 2000

// Verify checks every chain of the tenants for which of returns true, from its first row
// to its last: each row follows from the one before, the rows are the ones that
// checkpoints were signed for, and nothing is missing. witnesses are checkpoints that
// were kept elsewhere. Without them, somebody who can write to the database can remove
// the end of a chain unseen.
func Verify(ctx context.Context, s Store, trusted Trusted, witnesses []Checkpoint, of func(tenant string) bool) (Report, error) {
	chains, err := s.Chains(ctx)
	if err != nil {
		return Report{}, err
	}
	ends := map[string]Chain{}
	for _, c := range chains {
		ends[c.Tenant] = c
	}
	unchained, err := s.Unchained(ctx)
	if err != nil {
		return Report{}, err
	}
	for _, tenant := range unchained {
		ends[tenant] = Chain{Tenant: tenant, Hash: Genesis(tenant)}
	}
	seen := map[string][]Checkpoint{}
	for _, w := range witnesses {
		seen[w.Tenant] = append(seen[w.Tenant], w)
		if _, ok := ends[w.Tenant]; !ok {
			ends[w.Tenant] = Chain{Tenant: w.Tenant, Hash: Genesis(w.Tenant)}
		}
	}
	report := Report{OK: true, Chains: []ChainReport{}}
	for _, tenant := range slices.Sorted(maps.Keys(ends)) {
		if !of(tenant) {
			continue
		}
		one, err := verifyChain(ctx, s, trusted, ends[tenant], seen[tenant])
		if err != nil {
			return Report{}, err
		}
		report.OK = report.OK && one.Problem == nil
		report.Chains = append(report.Chains, one)
	}
	report.Unknown = unknown(report.Chains)
	return report, nil
}

// unknown are the sentences of Report.Unknown.
func unknown(all []ChainReport) (says []string) {
	var rows int64
	chains := 0
	for _, c := range all {
		if c.Problem == nil && c.Last > c.Signed {
			rows, chains = rows+c.Last-c.Signed, chains+1
		}
	}
	if rows > 0 {
		says = append(says, fmt.Sprintf("%d rows at the ends of %d chains are newer than the last signature: until they are signed, a user that can write to the database can change or remove them unseen", rows, chains))
	}
	return append(says, "an event that was lost before it was written has no row, and no chain shows the gap: events on their way are lost with the disk of NATS or with the spool of an edge")
}

func verifyChain(ctx context.Context, s Store, trusted Trusted, end Chain, witnesses []Checkpoint) (ChainReport, error) {
	for {
		v := verifier{store: s, trusted: trusted, end: end, witnesses: slices.Clone(witnesses), report: ChainReport{Tenant: end.Tenant}}
		p, err := v.run(ctx)
		if err != nil {
			return ChainReport{}, err
		}
		if p != nil {
			// Rows that seem to be missing may have been pruned meanwhile.
			now, err := s.Pruned(ctx, end.Tenant)
			if err != nil {
				return ChainReport{}, err
			}
			if now != nil && now.Seq > v.pruned && v.trusted.Signed(now) {
				continue
			}
		}
		v.report.Problem = p
		return v.report, nil
	}
}

// verifier checks one chain.
type verifier struct {
	store     Store
	trusted   Trusted
	end       Chain
	witnesses []Checkpoint
	report    ChainReport

	pruned int64
	seq    int64 // of the last row that is right
	hash   Digest
	// signed are the checkpoints to come.
	signed []Checkpoint
	more   bool
}

func (v *verifier) run(ctx context.Context) (*Problem, error) {
	slices.SortFunc(v.witnesses, func(a, b Checkpoint) int { return int(a.Seq - b.Seq) })
	if p, err := v.begin(ctx); p != nil || err != nil {
		return p, err
	}
	// It starts below the first number, where only somebody else writes.
	for after := int64(math.MinInt64); ; after = v.seq {
		rows, err := v.store.Rows(ctx, v.end.Tenant, after, page)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if p, err := v.row(ctx, &rows[i]); p != nil || err != nil {
				return p, err
			}
		}
		if len(rows) < page {
			return v.last(ctx)
		}
	}
}

// begin finds the hash that the first row follows.
func (v *verifier) begin(ctx context.Context) (*Problem, error) {
	v.hash, v.more = Genesis(v.end.Tenant), true
	pruned, err := v.store.Pruned(ctx, v.end.Tenant)
	if err != nil || pruned == nil {
		return nil, err
	}
	if !pruned.Pruned || pruned.Tenant != v.end.Tenant || !v.trusted.Signed(pruned) {
		return &Problem{Seq: pruned.Seq, What: "rows up to this one are gone, and no trusted key signed that retention removed them"}, nil
	}
	v.pruned, v.seq, v.hash, v.report.Signed = pruned.Seq, pruned.Seq, pruned.Hash, pruned.Seq
	// The rows before are unknown, but this row must be the one that was seen.
	for len(v.witnesses) > 0 && v.witnesses[0].Seq < v.seq {
		v.witnesses = v.witnesses[1:]
	}
	return v.witnessed(""), nil
}

// row checks the next row.
func (v *verifier) row(ctx context.Context, r *Row) (*Problem, error) {
	if r.Seq <= v.seq {
		return &Problem{Seq: r.Seq, ID: r.ID, What: fmt.Sprintf("added: it is before row %d, with which the chain begins", v.seq+1)}, nil
	}
	if r.Seq != v.seq+1 {
		return &Problem{Seq: v.seq + 1, What: fmt.Sprintf("missing; row %d (%s) comes next", r.Seq, r.ID)}, nil
	}
	if v.report.First == 0 {
		v.report.First = r.Seq
	}
	if r.Tenant != v.end.Tenant || !bytes.Equal(HashRow(v.hash, r.Seq, &r.Event), r.Hash) {
		return &Problem{Seq: r.Seq, ID: r.ID, What: "changed, or not the row that was written in this place"}, nil
	}
	v.seq, v.hash, v.report.Last = r.Seq, r.Hash, r.Seq
	c, err := v.checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	if c != nil && c.Seq == r.Seq {
		v.signed = v.signed[1:]
		switch {
		case !v.trusted.Signed(c):
			return &Problem{Seq: r.Seq, ID: r.ID, What: "its checkpoint is not signed by a trusted key"}, nil
		case !bytes.Equal(c.Hash, r.Hash):
			return &Problem{Seq: r.Seq, ID: r.ID, What: fmt.Sprintf("rewritten: not the row that was signed at %s; rows since the last checkpoint, %d, may be others too", c.Time.Format(time.RFC3339), v.report.Signed)}, nil
		}
		v.report.Signed = r.Seq
	}
	return v.witnessed(r.ID), nil
}

// witnessed compares the row reached with the checkpoints that were kept elsewhere.
func (v *verifier) witnessed(id string) *Problem {
	for len(v.witnesses) > 0 && v.witnesses[0].Seq == v.seq {
		w := v.witnesses[0]
		v.witnesses = v.witnesses[1:]
		if v.trusted.Signed(&w) && !bytes.Equal(w.Hash, v.hash) {
			return &Problem{Seq: v.seq, ID: id, What: fmt.Sprintf("rewritten: not the row that was signed at %s and kept elsewhere; rows since the last checkpoint, %d, may be others too", w.Time.Format(time.RFC3339), v.report.Signed)}
		}
		v.report.Signed = max(v.report.Signed, v.seq)
	}
	return nil
}

// checkpoint is the first one that is not before the row reached; nil if all are before
// it.
func (v *verifier) checkpoint(ctx context.Context) (*Checkpoint, error) {
	for {
		for len(v.signed) > 0 && v.signed[0].Seq < v.seq {
			v.signed = v.signed[1:]
		}
		if len(v.signed) > 0 {
			return &v.signed[0], nil
		}
		if !v.more {
			return nil, nil
		}
		var err error
		if v.signed, err = v.store.Checkpoints(ctx, v.end.Tenant, v.seq-1, page); err != nil {
			return nil, err
		}
		v.more = len(v.signed) == page
	}
}

// last checks that nothing is missing after the last row.
func (v *verifier) last(ctx context.Context) (*Problem, error) {
	c, err := v.checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	missing := func(to int64, says string) *Problem {
		return &Problem{Seq: v.seq + 1, What: fmt.Sprintf("missing, with all after it: %s that row %d was there", says, to)}
	}
	for _, w := range v.witnesses {
		if w.Seq > v.seq && v.trusted.Signed(&w) {
			return missing(w.Seq, "a checkpoint that was kept elsewhere says"), nil
		}
	}
	if v.end.Seq < v.seq {
		// Rows were added since the end was read.
		chains, err := v.store.Chains(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range chains {
			if c.Tenant == v.end.Tenant && c.Seq > v.seq {
				return nil, nil
			}
			if c.Tenant == v.end.Tenant {
				v.end = c
			}
		}
	}
	switch {
	case c != nil && c.Seq > v.seq && v.trusted.Signed(c):
		return missing(c.Seq, "a checkpoint says"), nil
	case v.end.Seq > v.seq:
		return missing(v.end.Seq, "the chain says"), nil
	case v.end.Seq != v.seq || !bytes.Equal(v.end.Hash, v.hash):
		return &Problem{Seq: v.end.Seq + 1, What: fmt.Sprintf("added: the chain ends with row %d", v.end.Seq)}, nil
	}
	return nil, nil
}
