package muster

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/procfs"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// BenchmarkFootprint measures what an agent with 40 checks costs in resident memory
// on the server (this process) and on the client's side (another one), and how long
// all take to connect at once, both ends on this machine:
//
//	MUSTER_AGENTS=9000 go test -run - -bench Footprint -benchtime 1x ./internal/source/muster
//
// After connecting every agent sends one frame of 40 results, so that buffers have
// their working size.
func BenchmarkFootprint(b *testing.B) {
	if spec := os.Getenv("MUSTER_FOOTPRINT"); spec != "" {
		footprintClients(spec)
		return
	}
	n := 2000
	if text := os.Getenv("MUSTER_AGENTS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	for _, secure := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "mutualTLS"}[secure], func(b *testing.B) {
			for b.Loop() {
				footprint(b, n, secure)
			}
		})
	}
}

func resident(pid int) int {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return stat.ResidentMemory()
}

func footprint(b *testing.B, n int, secure bool) {
	dir := b.TempDir()
	authority, err := pki.Open(dir, []string{"127.0.0.1"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	w := newWorld(b, func(c *Config) { c.SigningKey = authority.SigningKey() })
	var chunks []model.ChunkID
	for i := range 40 {
		chunks = append(chunks, model.ChunkID(i+1))
	}
	for i := range n {
		w.node(i, chunks...)
	}
	addr := w.addr
	if secure {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		addr = tcp.Addr().String()
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = Listen(tcp, authority, w.server, nil).Run(ctx) })
		stop := w.stop
		w.stop = func() { cancel(); stop(); running.Wait() }
	}
	debug.FreeOSMemory()
	before := resident(os.Getpid())
	cmd := exec.Command(os.Args[0], "-test.run", "-", "-test.bench", "Footprint", "-test.benchtime", "1x")
	cmd.Env = append(os.Environ(), fmt.Sprintf("MUSTER_FOOTPRINT=%s %d %t %s %s", addr, n, secure, dir,
		hex.EncodeToString(authority.SigningKey().Public().(ed25519.PublicKey))))
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	said := bufio.NewScanner(out)
	clientBefore, took := 0, time.Duration(0)
	for said.Scan() {
		f := strings.Fields(said.Text())
		if len(f) == 2 && f[0] == "ready" {
			clientBefore, _ = strconv.Atoi(f[1])
			fmt.Fprintln(in, "go")
		}
		if len(f) == 2 && f[0] == "connected" {
			took, _ = time.ParseDuration(f[1])
			break
		}
	}
	for range 4 { // stacks shrink by half at each collection
		debug.FreeOSMemory()
	}
	b.ReportMetric(float64(resident(os.Getpid())-before)/1000/float64(n), "kB/agent-server")
	b.ReportMetric(float64(resident(cmd.Process.Pid)-clientBefore)/1000/float64(n), "kB/agent-client")
	b.ReportMetric(took.Seconds(), "s-connect-all")
	b.ReportMetric(float64(n), "agents")
	in.Close()
	_ = cmd.Wait()
	w.stop()
}

// quiet is an agent that remembers nothing.
type quiet struct{ acked chan struct{} }

func (quiet) OpenedSession(*link.Session, *wire.Welcome)             {}
func (quiet) Assigned(*link.Session, *link.Assignment)               {}
func (q quiet) Acked(*link.Session, *wire.Ack)                       { q.acked <- struct{}{} }
func (quiet) RunNow(*link.Session, *wire.Run)                        {}
func (quiet) Reply(*link.Session, *wire.Exchange)                    {}
func (quiet) Turn(*link.Session, *wire.Turn)                         {}
func (quiet) BackPressure(*link.Session, *wire.BackPressure)         {}
func (quiet) ServerStops(_ *link.Session, _ time.Duration, _ string) {}

// footprintClients is the other process.
func footprintClients(spec string) {
	var addr, dir, key string
	var n int
	var secure bool
	if _, err := fmt.Sscan(spec, &addr, &n, &secure, &dir, &key); err != nil {
		panic(err)
	}
	serverKey, _ := hex.DecodeString(key)
	var mu sync.Mutex
	known := map[model.ChunkID]*model.Chunk{}
	shared := link.NewShared()
	var configs []*tls.Config
	if secure {
		configs = footprintConfigs(dir, n)
	}
	debug.FreeOSMemory()
	fmt.Println("ready", resident(os.Getpid()))
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	acked := make(chan struct{}, n)
	start := time.Now()
	var opening sync.WaitGroup
	dialing := make(chan struct{}, 1000)
	for i := range n {
		dialing <- struct{}{}
		opening.Go(func() {
			defer func() { <-dialing }()
			cfg := link.Config{Node: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)), ServerKey: serverKey, Shared: shared,
				Chunk: func(id model.ChunkID, body []byte) (*model.Chunk, error) {
					mu.Lock()
					defer mu.Unlock()
					if c := known[id]; c != nil {
						return c, nil
					}
					c, err := wire.DecodeChunk(id, body)
					known[id] = c
					return c, err
				}}
			if secure {
				cfg.TLS = configs[i]
			}
			s, err := link.Open(context.Background(), cfg.Complete(), addr, &wire.Hello{Streams: []wire.StreamRange{{StreamKey: live, First: 1}}}, nil, quiet{acked})
			if err != nil {
				panic(err)
			}
			go func() { _ = s.Read() }()
			if err := s.Send(results(1, 40, 1)); err != nil {
				panic(err)
			}
		})
	}
	opening.Wait()
	took := time.Since(start)
	for range n {
		<-acked
	}
	for range 4 {
		debug.FreeOSMemory()
	}
	fmt.Println("connected", took)
	in.Scan()
	os.Exit(0)
}

func footprintConfigs(dir string, n int) []*tls.Config {
	authority, err := pki.Open(dir, []string{"127.0.0.1"}, nil)
	if err != nil {
		panic(err)
	}
	configs := make([]*tls.Config, n)
	for i := range configs {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		csr, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		issued, err := authority.IssueNode(csr, uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)))
		if err != nil {
			panic(err)
		}
		block, _ := pem.Decode(issued)
		configs[i] = link.TLSConfig(&pki.Identity{CA: authority.Pool(), Certificate: tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}, nil)
		configs[i].ClientSessionCache = nil
	}
	return configs
}
