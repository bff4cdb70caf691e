package registry

import (
	"testing"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
)

// FuzzAnnouncement gives arbitrary bytes to the reader of announcements: an instance can announce
// only itself.
func FuzzAnnouncement(f *testing.F) {
	for _, ann := range []*busv1.Announcement{{Service: "a", Instance: "b"}, {Service: "a", Instance: "c"}, {Service: "gateway", Instance: "b"}, {}} {
		data, err := proto.Marshal(ann)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, ok := parse("a", "b", data); ok {
			ann := &busv1.Announcement{}
			if proto.Unmarshal(data, ann) != nil || ann.Service != "a" || ann.Instance != "b" {
				t.Errorf("believes %v", ann)
			}
		}
	})
}
