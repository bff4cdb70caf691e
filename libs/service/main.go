package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

const usage = `%[1]s %[2]s: the service %[3]q of a Busbar bus
%[4]s
Usage: %[1]s [--nats URL]

  --nats URL   NATS servers to join, comma-separated; also BUSBAR_NATS
               (default nats://127.0.0.1:4222)
  --version    print the version

Example: %[1]s --nats nats://127.0.0.1:4222
`

// Main is the main function of a service's own program: it reads the flags,
// joins the bus, serves until SIGINT or SIGTERM, drains, and exits. A second
// signal exits at once.
func Main(s *Service) {
	if err := s.main(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
		os.Exit(1)
	}
}

func (s *Service) main(args []string) error {
	program := filepath.Base(os.Args[0])
	about := ""
	if s.description != "" {
		about = s.description + "\n"
	}
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprintf(flags.Output(), usage, program, s.version, s.name, about) }
	url := os.Getenv("BUSBAR_NATS")
	if url == "" {
		url = "nats://127.0.0.1:4222"
	}
	flags.StringVar(&url, "nats", url, "")
	version := flags.Bool("version", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *version:
		fmt.Println(s.version)
		return nil
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := lifecycle.Context(context.Background())
	defer stop()
	conn, err := bus.Connect(ctx, bus.Config{URL: url, Name: s.name})
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.Run(ctx, conn)
}
