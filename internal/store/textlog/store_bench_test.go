//go:build unix

package textlog

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
)

// logLine returns a random log line, 117 bytes long on average. Its style is that of sshd, of a web server, of a
// kernel or of a Java program.
func logLine(r *rand.Rand, n int) string {
	at := time.Unix(1_790_000_000+int64(n/20), int64(r.IntN(1e9))).UTC()
	ip := fmt.Sprintf("10.%d.%d.%d", r.IntN(4), r.IntN(256), r.IntN(256))
	user := [...]string{"root", "deploy", "backup", "alice", "bob", "postgres"}[r.IntN(6)]
	switch r.IntN(4) {
	case 0:
		return fmt.Sprintf("%s web%d sshd[%d]: Failed password for invalid user %s from %s port %d ssh2: attempt %d of the session", at.Format(time.Stamp), r.IntN(20), r.IntN(30000), user, ip, 1024+r.IntN(60000), r.IntN(6))
	case 1:
		return fmt.Sprintf(`%s - %s [%s] "GET /api/v1/orders/%d?page=%d HTTP/1.1" %d %d "-" "curl/8.5.0" %.3f`, ip, user, at.Format("02/Jan/2006:15:04:05 -0700"), r.IntN(1e6), r.IntN(50), [...]int{200, 200, 200, 304, 404, 500}[r.IntN(6)], r.IntN(50000), r.Float64())
	case 2:
		return fmt.Sprintf("%s kernel: [%d.%06d] nf_conntrack: dropped packet IN=eth0 SRC=%s DST=10.0.0.1 LEN=%d PROTO=TCP", at.Format(time.RFC3339), n/20, r.IntN(1e6), ip, 40+r.IntN(1400))
	}
	return fmt.Sprintf("%s INFO  [http-nio-8080-exec-%d] c.e.shop.OrderService - order %08x of customer %d stored in %d ms", at.Format("2006-01-02 15:04:05.000"), r.IntN(16), r.Uint32(), r.IntN(1e5), r.IntN(300))
}

// cpuTime returns the processor time that the benchmark's process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStore measures writing 10,000,000 log lines, and searches in the lines. With -short it is 1,000,000 lines.
// They are of 400 nodes, in commits of 200 lines. It reports bytes on disk and processor time per line, and times of
// searches.
func BenchmarkStore(b *testing.B) {
	lines := 10_000_000
	if testing.Short() {
		lines = 1_000_000
	}
	for b.Loop() {
		s := openStore(b, filepath.Join(b.TempDir(), "text.db"), Options{})
		go s.Run(b.Context())
		r := rand.New(rand.NewPCG(1, 1))
		pool := make([]string, 200_000) // lines are made before, not in the measured time
		began, size := time.Duration(0), 0
		rows := make([]Row, 0, 200)
		for n := range lines {
			if n%len(pool) == 0 {
				for i := range pool {
					pool[i] = logLine(r, n+i)
				}
				if n == lines/len(pool)/2*len(pool) {
					pool[77] += " zebra"
				}
				if began -= cpuTime(); n == 0 {
					began = -cpuTime()
				}
			}
			rows = append(rows, Row{Node: model.NodeID(1 + n/200%400), Unit: 7, Key: "log[/var/log/syslog]", At: int64(n) * 1e6, Text: pool[n%len(pool)]})
			size += len(pool[n%len(pool)])
			if len(rows) == cap(rows) {
				s.Append(model.Partition(n/200%400%model.Partitions), journal.Position{Log: 1, Number: uint64(n)}, rows)
				s.AwaitCapacity()
				rows = rows[:0]
			}
			if n%len(pool) == len(pool)-1 {
				if err := s.writeCompleteBlocks(b.Context()); err != nil {
					b.Fatal(err)
				}
				began += cpuTime()
			}
		}
		for id := range s.partitions {
			if err := s.Flush(b.Context(), model.Partition(id)); err != nil {
				b.Fatal(err)
			}
		}
		_, used, err := s.db.FileSize(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size)/float64(lines), "text-B/line")
		b.ReportMetric(float64(used)/float64(lines), "B/line")
		b.ReportMetric(float64(began.Nanoseconds())/float64(lines), "cpu-ns/line")
		for name, q := range map[string]Query{
			"absent": {Words: "giraffe"}, "rare": {Words: "zebra"}, "common": {Words: "password"}, "two": {Words: "password alice deploy"}, "node": {Node: 6, Partition: 5, Key: "log[/var/log/syslog]"},
			"part": {Contains: "zebr"},
		} {
			q.Limit = 100
			at := cpuTime()
			rows, _, err := s.Find(b.Context(), &q)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((cpuTime()-at).Microseconds())/1000, name+"-cpu-ms")
			b.Logf("%s: %d rows", name, len(rows))
		}
	}
}
