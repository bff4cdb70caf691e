package fetch

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Cached is an answer that is kept until it expires, or to be revalidated with the entity tag
// or the time that the host gave it.
type Cached struct {
	header http.Header
	body   []byte
}

var keptHeaders = []string{"Content-Type", "Link", "Etag", "Last-Modified"}

// Cache returns nil if the answer cannot or must not be kept, or has more than most bytes.
// Broken JSON is not kept: its tag would bring it back forever.
func Cache(a *Answer, most int) *Cached {
	k := &Cached{header: http.Header{}, body: a.Body}
	for _, name := range keptHeaders {
		if v := a.Header.Get(name); v != "" {
			k.header.Set(name, v)
		}
	}
	switch {
	case k.header.Get("Etag") == "" && k.header.Get("Last-Modified") == "" && Expires(a.Header, time.Now()).IsZero(),
		len(a.Body) > most,
		strings.Contains(a.Header.Get("Cache-Control"), "no-store"),
		strings.Contains(a.Header.Get("Content-Type"), "json") && !json.Valid(a.Body):
		return nil
	}
	return k
}

// Cost estimates its memory in bytes, including the URL.
func (k *Cached) Cost(url string) int { return len(k.body) + len(url) + 1024 }

// Revalidate makes a request conditional; a nil Cached changes nothing.
func (k *Cached) Revalidate(h http.Header) {
	if k == nil {
		return
	}
	if tag := k.header.Get("Etag"); tag != "" {
		h.Set("If-None-Match", tag)
	}
	if at := k.header.Get("Last-Modified"); at != "" {
		h.Set("If-Modified-Since", at)
	}
}

// Answer returns the kept answer, updated from the header of "not modified".
func (k *Cached) Answer(fresh http.Header) *Answer {
	h := fresh.Clone()
	for name, v := range k.header {
		if h.Get(name) == "" || name == "Content-Type" {
			h[name] = v
		}
	}
	return &Answer{Status: http.StatusOK, Header: h, Body: k.body}
}

// Expires returns until when an answer may be used without revalidation, by our own clock:
// from max-age of Cache-Control, less its Age, or Expires. It is zero if the answer does not
// say so or forbids it (RFC 9111, 4.2.1).
func Expires(h http.Header, now time.Time) time.Time {
	control := strings.ToLower(strings.Join(h.Values("Cache-Control"), ","))
	if strings.Contains(control, "no-store") || strings.Contains(control, "no-cache") {
		return time.Time{}
	}
	for directive := range strings.SplitSeq(control, ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(directive), "max-age=")
		if !ok {
			continue
		}
		seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
		if err != nil {
			return time.Time{}
		}
		age, _ := strconv.ParseUint(h.Get("Age"), 10, 31)
		return later(now, time.Duration(seconds)*time.Second-time.Duration(age)*time.Second)
	}
	at, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return time.Time{}
	}
	return later(now, at.Sub(theirNow(h, now)))
}

func later(now time.Time, d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return now.Add(d)
}
