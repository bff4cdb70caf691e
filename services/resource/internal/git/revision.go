package git

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// hash is the beginning of a commit's hash. Fewer digits are easily guessed.
var hash = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// kept are the prefixes of the refs whose commits may be read.
var kept = []string{"refs/tags/", "refs/heads/", "refs/remotes/"}

// commit is the hash of the commit that a revision names: a tag, a branch or HEAD, by its short or
// its full name, or seven or more digits of the hash of one. It must be in the history of a branch
// or a tag: commits removed from these, perhaps because of a password, stay in a repository for a
// long time.
func (r *Repositories) commit(ctx context.Context, dir, revision string) (string, error) {
	var ask []string
	switch {
	case revision == "HEAD":
		ask = append(ask, revision)
	case strings.HasPrefix(revision, "refs/"):
		for _, where := range kept {
			if strings.HasPrefix(revision, where) {
				ask = append(ask, revision)
			}
		}
	default:
		for _, where := range kept {
			ask = append(ask, where+revision)
		}
		if hash.MatchString(revision) {
			ask = append(ask, revision)
		}
	}
	if len(ask) == 0 {
		return "", errNone
	}
	c := r.command(ctx, dir, "cat-file", "--batch-check=%(objecttype) %(objectname)")
	c.Stdin = strings.NewReader(strings.Join(ask, "^{commit}\n") + "^{commit}\n")
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("resolve a revision: %w", err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		found, ok := strings.CutPrefix(line, "commit ")
		if !ok || i >= len(ask) {
			continue // missing, or ambiguous
		}
		if strings.HasPrefix(ask[i], "refs/") {
			return found, nil
		}
		return found, r.reachable(ctx, dir, found)
	}
	return "", errNone
}

// reachable requires that a commit is in the history of a branch or a tag.
func (r *Repositories) reachable(ctx context.Context, dir, commit string) error {
	out, err := r.command(ctx, dir, append([]string{"for-each-ref", "--count=1", "--contains=" + commit}, kept...)...).Output()
	switch {
	case err != nil:
		return fmt.Errorf("look for a branch of a commit: %w", err)
	case len(out) == 0:
		return errNone
	}
	return nil
}
