package fetch

import (
	"context"
	"net/http"
	"time"
)

// Reader reads documents that are the same for every reader. Each is kept until it expires,
// but at most for Limits.LongestWait, and then revalidated. Without that limit, a wrong answer
// with an expiry in ten years would stay that long.
type Reader struct {
	client *Client
	header http.Header
	kept   *LRU[string, *document]
	each   int
}

type document struct {
	*Cached
	expires time.Time
}

// NewReader returns a reader whose requests have the given header. It keeps documents of at
// most most bytes in total, and none of more than each bytes.
func NewReader(client *Client, header http.Header, most, each int) *Reader {
	return &Reader{client: client, header: header, kept: NewLRU[string, *document](most), each: each}
}

// Get reads the document at a URL. It returns an answer of any status except 5xx. expires is the
// end of its freshness, zero if the host does not say so. Errors come from Client.Do.
func (r *Reader) Get(ctx context.Context, url string) (a *Answer, expires time.Time, err error) {
	known, _ := r.kept.Get(url)
	if known != nil && time.Now().Before(known.expires) {
		return known.Answer(http.Header{}), known.expires, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, time.Time{}, err
	}
	req.Header = r.header.Clone()
	if known != nil {
		known.Revalidate(req.Header)
	}
	if a, err = r.client.Do(req); err != nil {
		return nil, time.Time{}, err
	}
	if now := time.Now(); Expires(a.Header, now).After(now) {
		expires = r.client.Clamp(now, Expires(a.Header, now).Sub(now))
	}
	switch {
	case a.Status == http.StatusNotModified && known != nil:
		r.kept.Put(url, &document{known.Cached, expires}, known.Cost(url))
		return known.Answer(a.Header), expires, nil
	case a.Status == http.StatusNotModified, a.Status >= 500:
		return nil, time.Time{}, &Failure{Kind: Down, Status: a.Status, Until: r.client.RetryAfter(a.Header, time.Now())}
	}
	k := Cache(a, r.each)
	if a.Status != http.StatusOK || k == nil {
		r.kept.Remove(url)
		return a, expires, nil
	}
	r.kept.Put(url, &document{k, expires}, k.Cost(url))
	return a, expires, nil
}
