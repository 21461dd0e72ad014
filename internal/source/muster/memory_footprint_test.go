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
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/procfs"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// BenchmarkFootprint measures the memory and the time to connect of many agents with 40 checks each. The memory is the
// resident memory per connected agent, at server and agent.
//
//	MUSTER_AGENTS=9000 go test -run - -bench Footprint -benchtime 1x ./internal/source/muster
//
// Each agent sends one frame of 40 results after it has connected, so that buffers have their usual size.
func BenchmarkFootprint(b *testing.B) {
	if spec := os.Getenv("MUSTER_FOOTPRINT"); spec != "" {
		runFootprintClients(spec)
		return
	}
	n := 2000
	if text := os.Getenv("MUSTER_AGENTS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	for _, secure := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "mutualTLS"}[secure], func(b *testing.B) {
			for b.Loop() {
				measureFootprint(b, n, secure)
			}
		})
	}
}

// residentBytes returns the resident memory of a process.
func residentBytes(pid int) int {
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

// measureFootprint measures the memory that n connected agents use in server and clients, and the time to
// connect.
func measureFootprint(b *testing.B, n int, secure bool) {
	dir := b.TempDir()
	authority := testenv.Value(pki.Open(dir, []string{"127.0.0.1"}, nil))(b)
	w := newTestServer(b, func(c *Config) { c.SigningKey = authority.SigningKey() })
	var definitions []model.DefinitionID
	for i := range 40 {
		definitions = append(definitions, model.DefinitionID(i+1))
	}
	for i := range n {
		w.addNode(i, definitions...)
	}
	addr := w.addr
	if secure {
		tcp := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(b)
		addr = tcp.Addr().String()
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = Listen(tcp, authority, w.server, nil).Run(ctx) })
		stop := w.stop
		w.stop = func() { cancel(); stop(); running.Wait() }
	}
	debug.FreeOSMemory()
	before := residentBytes(os.Getpid())
	cmd := exec.Command(os.Args[0], "-test.run", "-", "-test.bench", "Footprint", "-test.benchtime", "1x")
	cmd.Env = append(os.Environ(), fmt.Sprintf("MUSTER_FOOTPRINT=%s %d %t %s %s", addr, n, secure, dir,
		hex.EncodeToString(authority.SigningKey().Public().(ed25519.PublicKey))))
	cmd.Stderr = os.Stderr
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	testenv.NoError(b, cmd.Start())
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
	b.ReportMetric(float64(residentBytes(os.Getpid())-before)/1000/float64(n), "kB/agent-server")
	b.ReportMetric(float64(residentBytes(cmd.Process.Pid)-clientBefore)/1000/float64(n), "kB/agent-client")
	b.ReportMetric(took.Seconds(), "s-connect-all")
	b.ReportMetric(float64(n), "agents")
	in.Close()
	_ = cmd.Wait()
	w.stop()
}

// ackReceiver is the message handler of a benchmark agent, and counts the received acknowledgements.
type ackReceiver struct {
	link.Handler // nil: the server sends no other messages
	acked        chan struct{}
}

// OpenedSession ignores the start of the agent's session.
func (ackReceiver) OpenedSession(*link.Session, *wire.Welcome) {}

// Assigned ignores the assignment (list of checks).
func (ackReceiver) Assigned(*link.Session, *link.Assignment) {}

// Acked tells the benchmark that a batch was acknowledged.
func (r ackReceiver) Acked(*link.Session, *wire.Ack) { r.acked <- struct{}{} }

// runFootprintClients runs the agents of BenchmarkFootprint in a child process of the benchmark.
func runFootprintClients(spec string) {
	var addr, dir, key string
	var n int
	var secure bool
	if _, err := fmt.Sscan(spec, &addr, &n, &secure, &dir, &key); err != nil {
		panic(err)
	}
	serverKey, _ := hex.DecodeString(key)
	var mu sync.Mutex
	known := map[model.DefinitionID]*model.Definition{}
	shared := link.NewBufferPools()
	var configs []*tls.Config
	if secure {
		configs = issueFootprintCertificates(dir, n)
	}
	debug.FreeOSMemory()
	fmt.Println("ready", residentBytes(os.Getpid()))
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
				Definition: func(id model.DefinitionID, body []byte) (*model.Definition, error) {
					mu.Lock()
					defer mu.Unlock()
					if c := known[id]; c != nil {
						return c, nil
					}
					c, err := wire.DecodeDefinition(id, body)
					known[id] = c
					return c, err
				}}
			if secure {
				cfg.TLS = configs[i]
			}
			s, err := link.Open(context.Background(), cfg.Complete(), addr, &wire.Hello{Streams: []wire.StreamRange{{StreamKey: liveStream, First: 1}}}, nil, ackReceiver{acked: acked})
			if err != nil {
				panic(err)
			}
			go func() { _ = s.Read() }()
			if err := s.Send(resultBatch(1, 40, 1)); err != nil {
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

// issueFootprintCertificates issues certificates to n agents of the benchmark, and returns TLS configurations with the
// certificates.
func issueFootprintCertificates(dir string, n int) []*tls.Config {
	authority, err := pki.Open(dir, []string{"127.0.0.1"}, nil)
	if err != nil {
		panic(err)
	}
	configs := make([]*tls.Config, n)
	for i := range configs {
		key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		csr, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		issued, err := authority.IssueNodeCertificate(csr, uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)))
		if err != nil {
			panic(err)
		}
		block, _ := pem.Decode(issued)
		configs[i] = link.TLSConfig(&pki.Identity{CA: authority.Pool(), Certificate: tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}, nil)
		configs[i].ClientSessionCache = nil
	}
	return configs
}

// nullJournal is a journal that commits entries at once and stores nothing.
type nullJournal struct {
	*memoryJournal
	at uint64
}

// Append reports each entry as durable at once, and stores no entry.
func (j *nullJournal) Append(_ context.Context, entries ...journal.Entry) error {
	for i := range entries {
		j.at++
		if w := entries[i].Waiter; w != nil {
			w.Committed(entries[i].Token, journal.Position{Log: 1, Number: j.at}, nil)
		}
	}
	return nil
}

// BenchmarkBatch measures the time from the arrival of a batch of results to the sending of its
// acknowledgement. Results allocate nothing. The report is signed, of 11 components.
func BenchmarkBatch(b *testing.B) {
	report := resultBatch(1, 1, 2)
	report.Signals[0].Kind, report.Signals[0].Body = wire.SignalReport, wire.AppendReport(nil, &wire.Report{
		Components: 11, Codes: make([]byte, 6), DurationMs: 20, Signed: wire.AppendSignedRun(nil, &wire.SignedRun{Number: 7, UnixMs: 1 << 40, Previous: [32]byte{1}, Assignment: [32]byte{2}, Signature: [64]byte{3}}),
	})
	for name, batch := range map[string]*wire.Batch{"1results": resultBatch(1, 1, 2), "8results": resultBatch(1, 8, 2), "40results": resultBatch(1, 40, 2), "1report": report} {
		b.Run(name, func(b *testing.B) {
			w := newTestServer(b, func(c *Config) {
				c.Journal, c.Kinds = &nullJournal{memoryJournal: new(memoryJournal)}, []wire.SignalKind{wire.SignalReport}
				c.Limits.NodeResultsPerSec = 1e12
			})
			uid := w.addNode(1, 1, 2, 3)
			x, refusal := w.server.admitAgent(nil, &wire.Hello{Protocol: wire.Protocol, Node: uid}, Proof{})
			if refusal != nil {
				b.Fatal(refusal)
			}
			x.assignment.sent = w.plan.AssignmentOf(1001)
			x.BlockWriters() // no writer takes the session
			frame := wire.AppendBatch(nil, batch)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if len(x.streams) > 0 {
					x.streams[0].last = 0 // the session forgets the numbers, so that the same batch is new
				}
				if out := x.handleFrame(frame); out != batchKept {
					b.Fatal(outcomeNames[out])
				}
			}
		})
	}
}

// TestSessionHasTheGoldenBytes compares the bytes of a short session in both directions with the golden file. A
// difference is a change of the protocol.
func TestSessionHasTheGoldenBytes(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	w := newTestServer(t, func(c *Config) {
		c.SigningKey = key
		c.Now = func() time.Time { return time.UnixMilli(1_800_000_000_000) }
		c.Rand = func() float64 { return 0.5 }
		c.Servers, c.Version = []string{"muster.example:8443"}, "1.2.3"
	})
	uid := w.addNode(1, 1)
	nc := testenv.Value(net.Dial("tcp", w.addr))(t)
	defer nc.Close()
	conn := testenv.Value(wsconn.Connect(nc, w.addr, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)}))(t)
	var text strings.Builder
	say := func(name string, frame []byte) {
		fmt.Fprintf(&text, "agent: %s\n%s", name, hex.Dump(frame))
		testenv.NoError(t, conn.Write(append(make([]byte, wsconn.Headroom), frame...)))
	}
	hear := func(name string, want wire.Kind) {
		_, frame, err := conn.Read(wire.MaxFrame)
		testenv.NoError(t, err)
		if kind, _, _ := wire.FrameKind(frame); kind != want {
			t.Fatalf("server says message %d, want %s", kind, name)
		}
		fmt.Fprintf(&text, "server: %s\n%s", name, hex.Dump(frame))
	}
	say("Hello", wire.AppendHello(nil, &wire.Hello{
		Protocol: 1, Node: uid, Name: "web01", MachineID: "m", BootID: "b", Session: 77, Version: "1.0.0", OS: "linux", Arch: "amd64",
		Streams: []wire.StreamRange{{StreamKey: liveStream, First: 1}}, ClockUnixMs: 1_800_000_000_123, Features: wire.Features(),
	}))
	hear("Welcome", wire.KindWelcome)
	hear("Assignment", wire.KindAssignment)
	a := w.plan.AssignmentOf(1001)
	say("Holding", wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Generation: a.Generation, Hash: a.Hash}))
	bad := resultBatch(1, 2, 1)
	bad.NowMs, bad.Signals[1].Definition = 5000, 99
	say("Batch: a result, and one of an unknown definition", wire.AppendBatch(nil, bad))
	hear("Ack", wire.KindAck)
	say("Batch with a hole before it", wire.AppendBatch(nil, resultBatch(9, 1, 1)))
	hear("Refuse", wire.KindRefuse)

	path := filepath.Join("testdata", "session.golden")
	testenv.Golden(t, path, text.String(), "released agents send and read these bytes: only new messages may differ")
}
