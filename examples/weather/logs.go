package weather

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

const logsURI = "weather://logs"

// Bounds of the logbook: lines, and bytes of a line.
const maxLines, maxLine = 200, 300

// logbook keeps the latest log lines of an instance.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines[max(0, len(l.lines)+1-maxLines):], line)
}

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// note writes a line, and tells who subscribed to them.
func (w *weather) note(format string, args ...any) {
	line := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ") // one line, whatever a stranger wrote
	w.logs.add(time.Now().UTC().Format(time.DateTime) + " - " + clip(line, maxLine))
	w.ResourceUpdated(logsURI)
}

func (w *weather) addLogs() {
	w.AddResource(mcp.Resource{
		URI: logsURI, Name: "Weather Service Logs", Description: "Application logs for the weather service", MIMEType: "text/plain",
	}, func(_ context.Context, _ *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: w.logs.text()}}, nil
	})
}

// clip bounds a stranger's text, in bytes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
