package text

import (
	"fmt"
	"io"
	"os"

	"github.com/busbar-mcp/busbar/services/text/internal/entity"
)

// maxGazetteer is the largest accepted file, in bytes.
const maxGazetteer = 4 << 20

// gazetteer returns the source of the names: the configured file, read now, or the built-in one, read on
// first use.
func (e Env) gazetteer() (func() *entity.Gazetteer, error) {
	if e.Gazetteer == "" {
		return entity.Default, nil
	}
	g, err := readGazetteer(e.Gazetteer)
	if err != nil {
		return nil, fmt.Errorf("BUSBAR_TEXT_GAZETTEER: %w", err)
	}
	return func() *entity.Gazetteer { return g }, nil
}

func readGazetteer(path string) (*entity.Gazetteer, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	limited := &io.LimitedReader{R: file, N: maxGazetteer + 1}
	g, err := entity.Parse(limited)
	if err == nil && limited.N == 0 {
		err = fmt.Errorf("gazetteer %s is larger than %d bytes; shorten it", path, maxGazetteer)
	}
	return g, err
}
