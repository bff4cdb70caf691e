package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	gh "github.com/google/go-github/v92/github"

	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/libs/redact"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/github/internal/limit"
	"github.com/busbar-mcp/busbar/services/github/internal/plain"
	"github.com/busbar-mcp/busbar/services/github/internal/upstream"
)

// noToken is a TokenSource's failure.
type noToken struct{ cause error }

func (n *noToken) Error() string { return n.cause.Error() }

// errStrange says that an answer does not match the request.
var errStrange = errors.New("an answer of another shape")

// explain turns a failure into a message for the model, and logs it for the operator. Neither contains a
// URL, a host or a token.
func (k *kit) explain(ctx context.Context, call *service.Call, tool, token string, err error) error {
	// A caller that gave up needs no message; the bus knows.
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return err
	}
	var (
		own      *refusal
		none     *noToken
		failure  *fetch.Failure
		theirs   *gh.ErrorResponse
		accepted *gh.AcceptedError
	)
	warn := func(what string, status int) {
		k.Logger().WarnContext(ctx, "GitHub call failed", "tool", tool, "call", call.ID(), "reason", what, "status", status)
	}
	switch {
	case errors.As(err, &own):
		return service.Errorf("%s: %s", own.kind, own.text)
	case errors.As(err, &none):
		k.Logger().ErrorContext(ctx, "no GitHub token for a call", "tool", tool, "call", call.ID(), "error", none.cause)
		return service.Errorf("unavailable: there is no GitHub token for this call; the service's log says why")
	case errors.As(err, &failure):
		if failure.Kind != upstream.RateLimited && failure.Kind != upstream.Throttled && failure.Kind != fetch.Shut {
			warn(string(failure.Kind), failure.Status)
		}
		return ofFailure(failure)
	case errors.As(err, &accepted):
		return service.Errorf("unavailable: GitHub is still preparing the answer; call again in a few seconds")
	case errors.As(err, &theirs):
		if theirs.Response.StatusCode == http.StatusUnauthorized {
			warn("token refused", http.StatusUnauthorized)
		}
		return ofRefusal(theirs, token)
	case errors.Is(err, context.DeadlineExceeded):
		return ofFailure(&fetch.Failure{Kind: fetch.TimedOut})
	}
	warn("malformed answer", http.StatusOK)
	return service.Errorf("unavailable: GitHub's answer could not be read; call again, and tell the operator if it fails again")
}

// refusal is this service's own error about something that only GitHub's answer showed.
type refusal struct{ kind, text string }

func (r *refusal) Error() string { return r.text }

func invalid(format string, args ...any) error {
	return &refusal{"invalid", fmt.Sprintf(format, args...)}
}

func ofFailure(f *fetch.Failure) error {
	switch f.Kind {
	case upstream.RateLimited:
		return service.Errorf("rate limited: GitHub's rate limit is used up%s; until then this service sends nothing", until(f.Until))
	case upstream.Throttled:
		return service.Errorf("rate limited: GitHub asks for fewer requests (secondary rate limit)%s; until then this service sends nothing", until(f.Until))
	case fetch.Shut:
		return service.Errorf("unavailable: GitHub failed several times, so nothing was sent%s", until(f.Until))
	case fetch.TimedOut:
		return service.Errorf("unavailable: GitHub did not answer in time; call again later, or ask for less")
	case fetch.Insecure:
		return service.Errorf("unavailable: GitHub's certificate is not trusted; ask the operator to check it")
	case fetch.TooLarge:
		return service.Errorf("too large: GitHub's answer exceeds %d MiB; ask for less, with a smaller perPage or a narrower path", limit.Body>>20)
	case upstream.Redirected:
		return service.Errorf("unavailable: GitHub redirected the request to another host, which this service does not follow; ask the operator to check BUSBAR_GITHUB_URL")
	}
	return service.Errorf("unavailable: GitHub is down or cannot be reached%s", until(f.Until))
}

// until says when to call again.
func until(at time.Time) string {
	if at.IsZero() {
		return "; call again later"
	}
	// Rounded up: a second early is refused again.
	left := max(time.Until(at), 0).Truncate(time.Second) + time.Second
	return fmt.Sprintf("; call again after %s (in %s)", at.UTC().Add(time.Second).Format(time.RFC3339), left)
}

func ofRefusal(r *gh.ErrorResponse, token string) error {
	said := said(r, token)
	switch status := r.Response.StatusCode; status {
	case http.StatusNotFound:
		return service.Errorf("not found: it does not exist on GitHub, or this service's token may not read it; check owner, repo and the other arguments")
	case http.StatusGone:
		return service.Errorf("not found: it was removed, or the repository has this feature turned off%s", said)
	case http.StatusUnauthorized:
		return service.Errorf("unauthorized: GitHub requires a valid token for this; ask the operator to set BUSBAR_GITHUB_TOKEN")
	case http.StatusForbidden:
		return service.Errorf("forbidden: this service's token may not do that%s", said)
	case http.StatusNotAcceptable:
		return service.Errorf("too large: GitHub does not return it as a whole; ask for its parts, such as listPullRequestFiles%s", said)
	case http.StatusUnavailableForLegalReasons:
		return service.Errorf("forbidden: GitHub withholds it for legal reasons%s", said)
	case http.StatusConflict:
		return service.Errorf("not found: the repository is empty or not ready yet%s", said)
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return service.Errorf("invalid: GitHub rejected the arguments%s", said)
	default:
		return service.Errorf("unavailable: GitHub answered with status %d%s", status, said)
	}
}

var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://\S+`)

// said returns GitHub's own explanation. It is untrusted, so it is limited to one line without addresses
// or the token.
func said(r *gh.ErrorResponse, token string) string {
	words := []string{r.Message}
	for _, e := range r.Errors {
		switch {
		case e.Message != "":
			words = append(words, e.Message)
		case e.Field != "":
			words = append(words, e.Field+": "+e.Code)
		}
	}
	text := strings.TrimSpace(anyURL.ReplaceAllString(strings.Join(words, "; "), "…"))
	text = redact.Replacer(token).Replace(text)
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (GitHub says: %s)", plain.Line(text, limit.Line))
}
