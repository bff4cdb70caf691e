package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Requests are published at this subject and the number of their answer.
const subject = "floor."

// maxPayload is more than Busbar needs, which sends large results in parts.
const maxPayload = 8 << 20

// embedded starts a NATS server in this process, as "busbar dev" does: the same settings,
// JetStream included, which the floor makes no use of.
func embedded() (*server.Server, error) {
	dir, err := os.MkdirTemp("", "peers-nats-")
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "floor", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 8 << 30,
		SyncAlways: true, MaxPayload: maxPayload, WriteDeadline: 10 * time.Second, DisableShortFirstPing: true,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("NATS did not become ready in 10 s")
	}
	return s, nil
}

// end stops an embedded server and removes what it stored.
func end(s *server.Server) error {
	dir := s.StoreDir()
	s.Shutdown()
	s.WaitForShutdown()
	return os.RemoveAll(dir)
}

func floor(ctx context.Context) (err error) {
	s, err := embedded()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(s)) }()
	nc, err := subscribe(s.ClientURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	return floorEdge(ctx, s.ClientURL())
}

func floorService(ctx context.Context, url string) error {
	nc, err := subscribe(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	fmt.Println("peer is ready: nats=" + url)
	<-ctx.Done()
	return nil
}

// subscribe answers requests, each in a goroutine of its own as services of Busbar do.
func subscribe(url string) (*nats.Conn, error) {
	all, err := answers()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	for i, data := range all {
		_, failed := nc.Subscribe(subject+strconv.Itoa(i), func(m *nats.Msg) { go func() { _ = m.Respond(data) }() })
		err = errors.Join(err, failed)
	}
	err = errors.Join(err, nc.Flush())
	if err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// floorEdge reads a body over net/http, carries it over NATS and back, and writes the
// answer.
func floorEdge(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := readBody(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m, err := nc.RequestWithContext(r.Context(), subject+which(r), data)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		write(w, m.Data)
	}))
}

// bytesAlone answers without a bus.
func bytesAlone(ctx context.Context) error {
	all, err := answers()
	if err != nil {
		return err
	}
	return serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := readBody(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n, err := strconv.Atoi(which(r))
		if err != nil || n < 0 || n >= len(all) {
			http.NotFound(w, r)
			return
		}
		write(w, all[n])
	}))
}

func readBody(r *http.Request) ([]byte, error) {
	data := make([]byte, max(r.ContentLength, 0))
	_, err := io.ReadFull(r.Body, data)
	return data, err
}

func write(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

// nothing is a program on standard streams that does nothing but embed NATS: it answers
// its first line, and ends with its input.
func nothing() (err error) {
	s, err := embedded()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end(s)) }()
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	one := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(one); err != nil {
			return nil
		}
		if one[0] == '\n' {
			fmt.Println("{}")
		}
	}
}
