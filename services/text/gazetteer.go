package text

import (
	"fmt"
	"io"
	"os"

	"github.com/busbar-mcp/busbar/services/text/internal/entity"
)

// maxGazetteer is the largest file taken, in bytes.
const maxGazetteer = 4 << 20

// gazetteer is where the names come from: the file that is set, read now, or else
// the one of the service, read when first needed.
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
		err = fmt.Errorf("%s is larger than %d bytes", path, maxGazetteer)
	}
	return g, err
}
