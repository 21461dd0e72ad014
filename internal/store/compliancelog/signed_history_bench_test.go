//go:build unix

package compliancelog

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
)

// BenchmarkHistory writes a month or a year of directive runs to the history, and measures sizes and times. 12,000
// nodes run a directive of 1,100 components. 1 % of the components change each day, each in a run of its own, which is
// the most expensive way. It reports the bytes on disk, the processor time of a change, and the longest time to read a
// node or the fleet, of days spread over the time.
//
// With signatures each node has one a day, each run a link, and certificates are renewed each 60 days.
func BenchmarkHistory(b *testing.B) {
	for _, days := range []int64{30, 365} {
		for _, signed := range []bool{false, true} {
			b.Run(fmt.Sprintf("days=%d/signed=%t", days, signed), func(b *testing.B) { benchmarkHistory(b, days, signed) })
		}
	}
}

// benchmarkHistory measures writing the directive runs of 12,000 nodes during some days, signed or unsigned.
func benchmarkHistory(b *testing.B, days int64, signed bool) {
	const nodes, components = 12000, 1100
	for b.Loop() {
		s := openStore(b, filepath.Join(b.TempDir(), "compliance.db"), Options{})
		random := rand.New(rand.NewPCG(1, 1))
		states := make([]State, nodes)
		assignments, certificates := make([][32]byte, nodes), make([]CertificateSum, nodes)
		for n := range nodes {
			assignments[n] = randomLink(random)
		}
		number, day := uint64(0), (24 * time.Hour).Milliseconds()
		began := cpuTime()
		record := func(after State) {
			n := after.Node - 1
			p := model.Partition(n % model.Partitions)
			number++
			at := journal.Position{Log: 1, Number: number}
			if s.CheckpointDue(p) {
				var all []State
				var chains []ChainEntry
				for i := int(p); i < nodes; i += model.Partitions {
					if all = append(all, states[i]); signed {
						chains = append(chains, ChainEntry{Node: states[i].Node, At: after.Executed - 1, ChainStart: policy.ChainCheckpoint, Number: number, UnixMs: uint64(after.Executed), Link: randomLink(random)})
					}
				}
				s.Checkpoint(p, at, after.Executed-1, all, chains, false)
			}
			s.Append(p, at, []Change{{Before: states[n], After: after, Linked: signed, SignedMs: after.Executed}})
			states[n] = after
		}
		flush := func() {
			if err := s.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		for n := range nodes {
			codes := policy.NewCodes(components)
			for i := range components {
				codes.Set(i, policy.Compliant)
			}
			record(State{Node: model.NodeID(n + 1), Unit: 1000, Definition: 5, Executed: 1000, Changed: 1000, Components: components, Codes: codes})
		}
		flush()
		_, first, err := s.db.FileSize(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		const changes = nodes * components / 100
		for d := range days {
			for n := range nodes {
				if signed {
					if d%60 == int64(n%60) || d == 0 {
						der := bytes.Clone(certificateDictionary)
						for i := range 222 { // as many as its number, key, identity and signature have
							der[len(der)-1-i] = byte(random.Uint32())
						}
						certificates[n] = sha256.Sum256(der)
						s.AddCertificate(der, d*day)
					}
					number++
					at := d*day + 2000 + random.Int64N(300_000) // of the node's last run of the day before
					seal := ChainEntry{Node: model.NodeID(n + 1), At: at, Number: uint64(d * 288), UnixMs: uint64(at - 360_000), Assignment: assignments[n], Certificate: certificates[n]}
					for _, sum := range [...][]byte{seal.Signature[:32], seal.Signature[32:]} {
						link := randomLink(random)
						copy(sum, link[:])
					}
					s.Append(model.Partition(n%model.Partitions), journal.Position{Log: 1, Number: number}, []Change{{Seal: &seal}})
				}
			}
			for i := range changes {
				after := states[random.IntN(nodes)]
				after.Codes = slices.Clone(after.Codes)
				k := random.IntN(components)
				after.Codes.Set(k, policy.Compliant+policy.NonCompliant-after.Codes.At(k))
				after.Executed = d*day + int64(i)*day/changes + 2000
				after.Changed = after.Executed
				record(after)
				if i%(changes/4) == 0 { // the server writes each minute: the bytes on disk are the same
					flush()
				}
			}
			if err := s.mergeSmallBlocks(b.Context()); err != nil { // the server does so each hour
				b.Fatal(err)
			}
		}
		flush()
		spent := cpuTime() - began
		file, used, err := s.db.FileSize(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		var blocks, ders int64
		if err := s.db.QueryRow(b.Context(), `SELECT (SELECT SUM(LENGTH(body)) FROM compliance_blocks), (SELECT COALESCE(SUM(LENGTH(der)), 0) FROM compliance_certificates)`).Scan(&blocks, &ders); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(used-first)/float64(days)/changes, "B/change")
		b.ReportMetric(float64(used-first)/float64(days)/nodes, "B/node-day")
		b.ReportMetric(float64(used-first)/float64(days)*365/1e6, "MB/year")
		b.ReportMetric(float64(file)/1e6, "MB/file")
		b.ReportMetric(float64(blocks)/1e6, "MB/blocks")
		b.ReportMetric(float64(ders)/1e6, "MB/certificates")
		b.ReportMetric(float64(used-blocks-ders)/1e6, "MB/index-and-pages")
		b.ReportMetric(float64(spent.Nanoseconds())/float64(days)/changes, "cpu-ns/change")
		read := func(of Selection, every int64, metric string) {
			worst := time.Duration(0)
			for d := every; d < days; d += every {
				began := cpuTime()
				found, err := s.StatesAt(b.Context(), of, time.UnixMilli(d*day))
				if err != nil || len(found) == 0 {
					b.Fatal(len(found), err)
				}
				worst = max(worst, cpuTime()-began)
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, metric)
		}
		read(Selection{Node: 7, Partition: 6}, 1, "ms/node")
		read(Selection{}, max(3, days/40), "ms/fleet")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// randomLink returns a random hash, in place of a link in a node's hash chain of signed runs.
func randomLink(random *rand.Rand) (link policy.Link) {
	for i := range link {
		link[i] = byte(random.Uint32())
	}
	return link
}

// cpuTime returns the processor time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
