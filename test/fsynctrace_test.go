//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// serialAgent is an agent that sends a result when the one before is acknowledged.
type serialAgent struct {
	link.Handler // nil: nothing else comes
	assigned     chan *link.Assignment
	acked        chan uint64
}

func (o *serialAgent) OpenedSession(*link.Session, *wire.Welcome)      {}
func (o *serialAgent) Assigned(_ *link.Session, held *link.Assignment) { o.assigned <- held }
func (o *serialAgent) Acked(_ *link.Session, ack *wire.Ack)            { o.acked <- ack.Last[0].Last }

// The system calls of the server, as the kernel saw them: between two acknowledgements
// to one agent, the journal was written and then synced.
func TestFsyncBeforeAcknowledgement(t *testing.T) {
	t.Parallel()
	strace := testenv.Program(t, "strace", "strace")
	if out, err := exec.Command(strace, "-D", "-qq", "-e", "trace=none", "true").CombinedOutput(); err != nil || len(out) > 0 {
		testenv.LeftOut(t, fmt.Sprintf("strace may not trace here: %v %s", err, out), "sudo scripts/nightly.sh blackbox")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	s := harness.NewServer(t)
	s.Prepare(harness.Fleet{Agents: 1, Checks: 1, Interval: time.Minute})
	// -D: the server is our child, and strace ends with it.
	s.Wrap = []string{strace, "-D", "-f", "-qq", "-yy", "-x", "-s", "8", "-e", "trace=write,writev,pwrite64,fsync,fdatasync", "-e", "signal=none", "-o", trace}
	s.Start()

	o := &serialAgent{assigned: make(chan *link.Assignment, 9), acked: make(chan uint64, 9)}
	key := wire.StreamKey{Stream: 7}
	hello := &wire.Hello{Session: 1, Streams: []wire.StreamRange{{StreamKey: key, First: 1}}}
	session, err := link.Open(t.Context(), &link.Config{Node: simulated.NodeUID(0, 0)}, s.Plain, hello, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Read() }()
	chunk := (<-o.assigned).Chunks[0].ID
	const results = 25
	for n := uint64(1); n <= results; n++ {
		b := &wire.Batch{StreamKey: key, First: n, Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Chunk: chunk}, wire.Result{Status: model.OK, Output: fmt.Append(nil, n)})}}
		if err := session.Send(b); err != nil {
			t.Fatal(err)
		}
		select {
		case last := <-o.acked:
			if last != n {
				t.Fatalf("%d is acknowledged, want %d", last, n)
			}
		case err := <-ended:
			t.Fatalf("the session ended: %v", err)
		}
	}
	session.Close()
	<-ended
	s.Stop()

	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if acks := checkSyncOrder(t, string(data), s.Plain); acks != results {
		t.Errorf("%d acknowledgements in the trace, want %d", acks, results)
	}
}

// call is a line of the trace: process, "resumed" or name, file of the descriptor, rest.
var (
	call = regexp.MustCompile(`^(\d+) +(<\.\.\. )?(\w+)(?: resumed|\(\d+<(.*?))>([,) ].*)$`)
	// ack is a WebSocket message that holds a Frame with the field Ack.
	ack = regexp.MustCompile(`"\\x82\\x..\\x3a`)
)

// checkSyncOrder counts acknowledgements on connections of an address. Each needs a journal that
// was written, and then synced to the end, since the one before.
func checkSyncOrder(t testing.TB, trace, plain string) (acks int) {
	t.Helper()
	var written, synced bool
	syncing := map[string]bool{} // threads in a sync of what was written
	for line := range strings.Lines(trace) {
		m := call.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		thread, resumed, name, file, rest := m[1], m[2] != "", m[3], m[4], m[5]
		journal := strings.HasSuffix(file, ".log") && strings.Contains(file, "/journal/")
		switch sync := name == "fdatasync" || name == "fsync"; {
		case sync && (journal || resumed):
			if !resumed {
				syncing[thread] = written
			}
			if strings.HasSuffix(rest, "= 0") {
				synced = synced || syncing[thread]
			}
		case journal:
			written = written || !strings.Contains(rest, "<unfinished")
		case name == "pwrite64" && resumed:
			written = true // of the journal alone, or of less than it
		case strings.Contains(file, plain+"->") && ack.MatchString(rest):
			acks++
			if !synced {
				t.Errorf("acknowledged, and since the acknowledgement before the journal was not synced: %s", line)
			}
			written, synced = false, false
			clear(syncing)
		}
	}
	return acks
}

func TestJudgeFindsEarlyAcknowledgement(t *testing.T) {
	const plain = "127.0.0.1:1"
	write := `1 pwrite64(20</d/journal/1.log>, "x"..., 98, 1) = 98` + "\n"
	sync := "1 fdatasync(20</d/journal/1.log>) = 0\n"
	begun, done := "1 fdatasync(20</d/journal/1.log> <unfinished ...>\n", "1 <... fdatasync resumed>) = 0\n"
	acked := `2 write(24<TCP:[127.0.0.1:1->127.0.0.1:2]>, "\x82\x0f\x3a\x0d"..., 17) = 17` + "\n"
	other := "1 fdatasync(9</d/intent.db-wal>) = 0\n"
	for _, c := range []struct {
		trace string
		right bool
	}{
		{write + sync + acked, true},
		{write + begun + done + acked, true},
		{write + acked + sync, false},
		{sync + write + acked, false},
		{write + begun + acked + done, false},
		{write + other + acked, false},
		{write + sync + acked + acked, false},
	} {
		var said errorCounter
		if n := checkSyncOrder(&said, c.trace, plain); n == 0 || (said.errors == 0) != c.right {
			t.Errorf("%d acknowledgements, %d errors, right is %v:\n%s", n, said.errors, c.right, c.trace)
		}
	}
}

// errorCounter counts errors.
type errorCounter struct {
	testing.TB
	errors int
}

func (q *errorCounter) Helper()               {}
func (q *errorCounter) Errorf(string, ...any) { q.errors++ }
