// Command round-robin listens on a free port and gives each TCP connection to
// the next of the addresses in its arguments: a load balancer without
// stickiness, as simple as one can be. It prints where it listens.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
)

func main() {
	backends := os.Args[1:]
	if len(backends) == 0 {
		log.Fatal("usage: round-robin HOST:PORT…")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr())
	for next := 0; ; next++ {
		client, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go join(client, backends[next%len(backends)])
	}
}

// join copies both ways until the server ends. A client that only ends its own half still gets the
// rest of the answer, also if the server accepts no more bytes from it.
func join(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		if half, ok := server.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(client, server)
}
