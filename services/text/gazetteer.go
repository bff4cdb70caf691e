package text

import (
	"fmt"
	"io"
	"os"

	"github.com/busbar-mcp/busbar/services/text/internal/entity"
)

// gazetteerVariable names the file that replaces the gazetteer of the service.
const gazetteerVariable = "BUSBAR_TEXT_GAZETTEER"

// maxGazetteer is the largest file taken, in bytes.
const maxGazetteer = 4 << 20

// configured is where the gazetteer comes from: the file that the environment
// names, read now, or else the one of the service, read when first needed.
func configured() (func() *entity.Gazetteer, error) {
	path := os.Getenv(gazetteerVariable)
	if path == "" {
		return entity.Default, nil
	}
	g, err := readGazetteer(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", gazetteerVariable, err)
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
