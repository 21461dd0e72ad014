// Command ws compares WebSocket libraries for the agent's session: what an idle
// connection costs the server's memory, and a frame its CPU. The server under test
// is a process of its own; the clients are the same for all.
//
//	go -C bench/ws run .         # plain and mutual TLS, 4000 connections each
//
// The outcome and what follows from it: docs/decisions/0002-websocket.md.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/lxzan/gws"
	"github.com/prometheus/procfs"

	"github.com/muster-fleet/muster/internal/wsconn"
)

const (
	path  = "/agent/v1/session"
	proto = "muster.v1"
	reply = 30 // bytes of an acknowledgement
)

func main() {
	conns := flag.Int("n", 4000, "connections")
	frames := flag.Int("frames", 60, "frames per connection")
	size := flag.Int("size", 480, "bytes per frame: four results")
	serve := flag.String("serve", "", "internal: be the server with this library")
	secure := flag.Bool("tls", false, "internal: with mutual TLS")
	flag.Parse()
	if *serve != "" {
		server(*serve, *secure)
		return
	}
	fmt.Printf("%s, %d CPUs, %d connections, frames of %d bytes answered by %d\n\n", runtime.Version(), runtime.NumCPU(), *conns, *size, reply)
	fmt.Println("| library | transport | kB resident per idle connection | kB after frames | µs of server CPU per frame | ms of server CPU to connect |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, secure := range []bool{false, true} {
		for _, lib := range []string{"gws", "gws-1k", "coder", "wsconn"} {
			if err := measure(lib, secure, *conns, *frames, *size); err != nil {
				fmt.Fprintln(os.Stderr, lib, err)
				os.Exit(1)
			}
		}
	}
}

func measure(lib string, secure bool, n, frames, size int) error {
	cmd := exec.Command(os.Args[0], "-serve", lib, fmt.Sprintf("-tls=%t", secure))
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	said := bufio.NewScanner(out)
	said.Scan()
	addr := said.Text()
	usage := func() (rss int, cpu float64) {
		fmt.Fprintln(in, "gc") // so that garbage is not counted as connections
		said.Scan()
		p, err := procfs.NewProc(cmd.Process.Pid)
		if err != nil {
			return
		}
		stat, err := p.Stat()
		if err != nil {
			return
		}
		return stat.ResidentMemory(), stat.CPUTime()
	}
	rss0, cpu0 := usage()
	list := make([]*wsconn.Conn, n)
	options := wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)}
	var config *tls.Config
	if secure {
		config = tlsConfig()
	}
	each(n, func(i int) error {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		if config != nil {
			nc = tls.Client(nc, config)
		}
		list[i], err = wsconn.Connect(nc, addr, path, proto, options)
		return err
	})
	rss1, cpu1 := usage()
	each(n, func(i int) error {
		buf := make([]byte, wsconn.Headroom+size)
		for range frames {
			if err := list[i].Write(buf); err != nil {
				return err
			}
			if _, _, err := list[i].Read(1 << 20); err != nil {
				return err
			}
		}
		return nil
	})
	_, cpu2 := usage()
	rss2, _ := usage()
	transport := "plain"
	if secure {
		transport = "mutual TLS"
	}
	per := func(bytes int) float64 { return float64(bytes) / 1000 / float64(n) }
	fmt.Printf("| %s | %s | %.1f | %.1f | %.1f | %.2f |\n", lib, transport, per(rss1-rss0), per(rss2-rss0),
		(cpu2-cpu1)*1e6/float64(n*frames), (cpu1-cpu0)*1e3/float64(n))
	for _, c := range list {
		c.Close()
	}
	return nil
}

// each runs fn for 0 … n-1, sixteen at a time.
func each(n int, fn func(int) error) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				if err := fn(i); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func server(lib string, secure bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			debug.FreeOSMemory()
			debug.FreeOSMemory()
			fmt.Println("done")
		}
		os.Exit(0)
	}()
	if secure {
		l = tls.NewListener(l, tlsConfig())
	}
	switch {
	case lib == "wsconn":
		serveWsconn(l)
	case strings.HasPrefix(lib, "gws"):
		o := &gws.ServerOption{SubProtocols: []string{proto}, NewSession: func() gws.SessionStorage { return nil }}
		if lib == "gws-1k" {
			o.ReadBufferSize = 1024
		}
		_ = gws.NewServer(echo{}, o).RunListener(l)
	case lib == "coder":
		_ = http.Serve(l, http.HandlerFunc(serveCoder))
	}
}

type echo struct{ gws.BuiltinEventHandler }

func (echo) OnMessage(c *gws.Conn, m *gws.Message) {
	defer m.Close()
	_ = c.WriteMessage(gws.OpcodeBinary, m.Bytes()[:reply])
}

func serveWsconn(l net.Listener) {
	options := wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)}
	read := func(c *wsconn.Conn) {
		buf := make([]byte, wsconn.Headroom+reply)
		for {
			if _, _, err := c.Read(1 << 20); err != nil {
				return
			}
			if err := c.Write(buf); err != nil {
				return
			}
		}
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			if c, err := wsconn.Accept(nc, path, proto, options); err == nil {
				go read(c) // on a fresh stack: the handshake's has grown
			}
		}()
	}
}

func serveCoder(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{proto}})
	if err != nil {
		return
	}
	ctx := context.Background()
	for {
		_, rd, err := c.Reader(ctx)
		if err != nil {
			return
		}
		p, err := io.ReadAll(rd)
		if err != nil || c.Write(ctx, websocket.MessageBinary, p[:reply]) != nil {
			return
		}
	}
}

// tlsConfig is one self-signed certificate for both ends: enough to make both verify.
func tlsConfig() *tls.Config {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"bench"}}
	der, _ := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, InsecureSkipVerify: true,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientAuth: tls.RequireAnyClientCert,
	}
}
