package client

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/services/edge"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, others := certtest.New(t), certtest.New(t)
	p, anna, stranger := ca.Issue(t, "edge", time.Hour), ca.Issue(t, "anna", time.Hour), others.Issue(t, "anna", time.Hour)
	w := newWorldAt(t, edge.ListenFlags{Listen: "127.0.0.1:0", TLSCert: p.Cert, TLSKey: p.Key, TLSClientCA: ca.File})
	for name, c := range map[string]struct {
		tls  TLS
		exit int
		says string
	}{
		"the authority":                   {TLS{CA: ca.File}, ExitOK, ""},
		"a certificate":                   {TLS{CA: ca.File, Cert: anna.Cert, Key: anna.Key}, ExitOK, ""},
		"nothing":                         {TLS{}, ExitTransport, "next: name the authority"},
		"another authority":               {TLS{CA: others.File}, ExitTransport, "--ca"},
		"a certificate of others":         {TLS{CA: ca.File, Cert: stranger.Cert, Key: stranger.Key}, ExitTransport, "the edge does not take the certificate"},
		"no such file":                    {TLS{CA: "/nowhere"}, ExitUsage, "--ca"},
		"no certificate":                  {TLS{CA: p.Key}, ExitUsage, "--ca"},
		"a certificate without a key":     {TLS{CA: ca.File, Cert: anna.Cert}, ExitUsage, "--cert is without --key"},
		"a key without a certificate":     {TLS{CA: ca.File, Key: anna.Key}, ExitUsage, "--key is without --cert"},
		"a certificate and another's key": {TLS{CA: ca.File, Cert: anna.Cert, Key: p.Key}, ExitUsage, "--cert"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			exit := RunCall(t.Context(), CallOptions{Options: Options{URL: w.url, TLS: c.tls}, Name: "measure", Arguments: []string{"text=abc"}}, strings.NewReader(""), &out, &errs)
			if exit != c.exit || !strings.Contains(errs.String(), c.says) {
				t.Errorf("%d %s %s", exit, &out, &errs)
			}
		})
	}
}

// A wrong scheme of the URL is reported.
func TestWrongScheme(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	p := ca.Issue(t, "edge", time.Hour)
	secured := newWorldAt(t, edge.ListenFlags{Listen: "127.0.0.1:0", TLSCert: p.Cert, TLSKey: p.Key})
	plain := newWorldAt(t, edge.ListenFlags{Listen: "127.0.0.1:0"})
	for url, says := range map[string]string{
		strings.Replace(secured.url, "https://", "http://", 1): "next: give the --url with https://",
		strings.Replace(plain.url, "http://", "https://", 1):   "next: give the --url with http://",
	} {
		var out, errs bytes.Buffer
		if exit := RunTools(t.Context(), ToolsOptions{Options: Options{URL: url}}, &out, &errs); exit == ExitOK || !strings.Contains(errs.String(), says) {
			t.Errorf("%s: %d %s", url, exit, &errs)
		}
	}
}
