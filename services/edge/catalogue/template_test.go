package catalogue_test

import (
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

func TestH2TemplatesReadWhatTheyExpandTo(t *testing.T) {
	t.Parallel()
	for uri, c := range map[string]struct{ yes, no []string }{
		"a://{x}":        {[]string{"a://", "a://b", "a://b%41,c"}, []string{"a:/", "a://b/c", "b://b", "A://b", "a://é", "a://%4"}},
		"a://{x}/{y}":    {[]string{"a://1/2", "a:///"}, []string{"a://1", "a://1/2/3"}},
		"a://{+path}":    {[]string{"a://1/2?x#y"}, []string{"a://\"", "a:/"}},
		"a://h{/x}":      {[]string{"a://h", "a://h/1"}, []string{"a://h1", "a://h/1/2"}},
		"a://h{?q,r}":    {[]string{"a://h?q=1", "a://h?q=1&r=2", "a://h?r=2"}, []string{"a://h?z=1", "a://h?&c"}},
		"a://h{/x*}":     {[]string{"a://h/1/2/3"}, []string{"a://h/.,4c"}},
		"a://{x:3}":      {[]string{"a://abc"}, []string{"a://abcd"}},
		"a://fixed":      {[]string{"a://fixed"}, []string{"a://fixed2", "a://fixe"}},
		"{scheme}://any": {[]string{"http://any"}, []string{"http://many/any"}},
	} {
		t.Run(uri, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			live := watch(t, url)
			announce(t, url, &busv1.Catalogue{Service: "a", ResourceTemplates: []*busv1.ResourceTemplate{template(uri)}})
			bustest.Eventually(t, "the service is there", func() bool { return len(live.Services()) == 1 })
			for _, uri := range c.yes {
				if _, found := live.Now().Resource(uri); !found {
					t.Errorf("nobody reads %s", uri)
				}
			}
			for _, uri := range c.no {
				if _, found := live.Now().Resource(uri); found {
					t.Errorf("somebody reads %s", uri)
				}
			}
			for name, long := range map[string]string{"at the end": strings.Repeat("a", catalogue.MaxURI), "a prefix": c.yes[0] + strings.Repeat("a", catalogue.MaxURI)} {
				if _, found := live.Now().Resource(long); found {
					t.Errorf("somebody reads %d bytes (%s)", len(long), name)
				}
			}
		})
	}
}
