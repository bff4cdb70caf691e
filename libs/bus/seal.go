package bus

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"hash"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// An edge seals every request with the key of the receiving service, and the service checks the
// seal before it reads anything else (ADR 0030). The seal is the last field of the message, over
// the name of the service and all bytes before it.

// sealHead is the beginning of the field Request.seal: its tag and length.
var sealHead = [...]byte{0xaa, 0x01, sha256.Size}

const sealSize = len(sealHead) + sha256.Size

// sealSlack is how far the clocks of a service and an edge may differ: a sealed request is refused
// as old this long after its deadline. Copies of newer requests are refused by their ids.
const sealSlack = 5 * time.Minute

// sealer makes and checks the seals of one service's requests.
type sealer struct {
	service []byte
	// macs are pools, one for each key: the first one seals, and all of them open.
	macs []*sync.Pool
}

func newSealer(service string, keys []secret.Key) *sealer {
	if len(keys) == 0 {
		return nil
	}
	s := &sealer{service: []byte(service + "\x00")}
	for _, k := range keys {
		s.macs = append(s.macs, &sync.Pool{New: func() any { return hmac.New(sha256.New, k[:]) }})
	}
	return s
}

// sealer returns the sealer of a service; nil if this program has no key for it.
func (c *Conn) sealer(service string) *sealer {
	if len(c.secret.Keys) == 0 {
		return nil
	}
	if s, ok := c.sealers.Load(service); ok {
		return s.(*sealer)
	}
	s := newSealer(service, c.secret.KeysFor(service))
	c.sealers.Store(service, s)
	return s
}

// sum appends the seal of data.
func (s *sealer) sum(pool *sync.Pool, data, to []byte) []byte {
	mac := pool.Get().(hash.Hash)
	mac.Reset()
	_, _ = mac.Write(s.service)
	_, _ = mac.Write(data)
	to = mac.Sum(to)
	pool.Put(mac)
	return to
}

// seal marshals a request, with its seal unless s is nil.
func (s *sealer) seal(req *busv1.Request) ([]byte, error) {
	size := proto.Size(req)
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, 0, size+sealSize), req)
	if err != nil || s == nil {
		return data, err
	}
	return s.sum(s.macs[0], data, append(data, sealHead[:]...)), nil
}

var (
	errNotSealed = errors.New("it is not sealed, or for another service")
	errOld       = errors.New("it is too old")
)

// open checks the seal of a message. Only after that may the message be read.
func (s *sealer) open(data []byte) error {
	n := len(data) - sealSize
	if n < 0 || [len(sealHead)]byte(data[n:]) != sealHead {
		return errNotSealed
	}
	var room [sha256.Size]byte
	for _, pool := range s.macs {
		if subtle.ConstantTimeCompare(s.sum(pool, data[:n], room[:0]), data[n+len(sealHead):]) == 1 {
			return nil
		}
	}
	return errNotSealed
}

// fresh checks the age of a request whose seal was checked.
func fresh(req *busv1.Request, now time.Time) error {
	if now.After(time.Unix(0, int64(req.DeadlineUnixNano)).Add(sealSlack)) {
		return errOld
	}
	return nil
}

// refuse counts a request without an edge's seal for this service. It is not answered, because its
// sender chose the reply subject.
func (s *Server) refuse(why error) {
	n := s.refused.Add(1)
	now := time.Now().UnixNano()
	if last := s.complained.Load(); now-last > int64(time.Minute) && s.complained.CompareAndSwap(last, now) {
		s.conn.log.Warn("a request is refused: somebody on the bus forges requests, or the edges have another key than this service",
			"service", s.cfg.Service, "because", why, "refused", n)
	}
}

// sayUnsealed logs that requests are not checked: as a warning, but on loopback, where that is
// expected for development, only as information.
func (s *Server) sayUnsealed() {
	if s.seals != nil {
		return
	}
	level := slog.LevelWarn
	if u, err := url.Parse(s.conn.URL()); err == nil {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
			level = slog.LevelInfo
		}
	}
	s.conn.log.Log(context.Background(), level, "requests are not checked: this program has no key of its service (--nats-nkey)", "service", s.cfg.Service)
}
