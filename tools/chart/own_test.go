package chart

import (
	"regexp"
	"strings"
	"testing"
)

// The values of docs/guides/deploy.md make a workload of a service that the chart does not
// know, with the Secret of its own user of the bus and the URL of the database.
func TestOwnService(t *testing.T) {
	t.Parallel()
	shown := regexp.MustCompile("(?s)```yaml\n(workloads:\n.*?)```").FindStringSubmatch(read(t, root+"/docs/guides/deploy.md"))
	if shown == nil {
		t.Fatal("the page shows no values")
	}
	for _, w := range workloads(objects(t, parse(t, shown[1]))) {
		if w.component != "notes" {
			continue
		}
		c := w.pod.Spec.Containers[0]
		if !strings.HasPrefix(c.Image, "busbar/notes:") {
			t.Errorf("it runs %s", c.Image)
		}
		var secrets []string
		for _, v := range w.pod.Spec.Volumes {
			if v.Secret != nil {
				secrets = append(secrets, v.Secret.SecretName)
			}
		}
		if all := strings.Join(secrets, " "); !strings.Contains(all, "busbar-bus-notes") || !strings.Contains(all, "postgres-app") {
			t.Errorf("it has the Secrets %q", secrets)
		}
		if w.settings()["BUSBAR_DATABASE_URL_FILE"] == "" {
			t.Error("it has no database")
		}
		return
	}
	t.Error("there is no workload notes")
}
