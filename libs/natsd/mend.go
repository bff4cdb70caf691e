package natsd

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

const (
	// mendEvery is how often a server whose disk was full checks for room.
	mendEvery = time.Second
	// roomBytes must be free before a restart: with less the disk would soon be full again.
	roomBytes = 8 << 20
)

// full reports whether an error says that a disk is full.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// mend restarts the server at the same address and with the same data once its disk, which was
// full, has room again. After a failed write, NATS 2.15 refuses further writes to that store, or
// turns JetStream off, until it is restarted. Clients reconnect.
func (s *Server) mend(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	told := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !s.full.Load() && s.ns.JetStreamEnabled() {
			continue
		}
		if !told {
			told = true
			s.cfg.Logger.Error("NATS cannot write, so calls with effects are refused; make room on its disk, and it goes on by itself", "dir", s.cfg.DataDir)
		}
		if err := room(s.cfg.DataDir); err != nil {
			continue
		}
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		s.full.Store(false)
		ns, err := run(s.cfg, s.full)
		if err != nil {
			s.full.Store(true)
			s.cfg.Logger.Error("NATS does not start again; trying on", "error", err)
			continue
		}
		s.ns, told = ns, false
		s.cfg.Logger.Info("the disk of NATS has room again, and it was started again")
	}
}

// room returns nil if roomBytes can be written to a directory.
func room(dir string) (err error) {
	file, err := os.CreateTemp(dir, ".room-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 1<<20)
	for range roomBytes / len(block) {
		if _, err := file.Write(block); err != nil {
			return err
		}
	}
	return file.Sync()
}
