// Package doctor measures a machine and a data folder for the common faults of an installation. Each
// finding has the measured value, the needed one and the command that mends the fault. It writes only
// a scratch file of at most 16 MiB into the journal's folder, and removes it. It starts no goroutine and
// has no lock. Start reading at Examine.
package doctor

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// Rating says how good or bad a finding of muster doctor is, fine, warning or bad. It is fine, warning or bad.
type Rating string

// The verdicts.
const (
	Fine Rating = "ok"
	Warn Rating = "warn" // works, but slowly, or not for long
	Bad  Rating = "bad"  // does not work
)

// Finding is one result of muster doctor about the machine or server. It has a name, a measured value, a rating, and
// the command that repairs a fault.
type Finding struct {
	Rating   Rating `json:"verdict"`
	Subject  string `json:"subject"`
	Measured string `json:"measured"`
	Needed   string `json:"needed,omitempty"`
	Mend     string `json:"mend,omitempty"` // command to type
}

// failUnless returns the finding, rated as bad and with a repair command unless `well` is true. If well is
// true, the finding stays unchanged.
func (f Finding) failUnless(well bool, verdict Rating, mend string) []Finding {
	if !well {
		f.Rating, f.Mend = verdict, mend
	}
	return []Finding{f}
}

// Target says which machine, data folder and server muster doctor examines.
type Target struct {
	Data    string // data folder; may be missing
	Journal string // journal folder; empty: in the data folder
	Budget  int64  // bytes that the journal may use
	Agents  int    // sessions to serve
	URL     string // of the server; empty: none is examined
	CA      []byte // PEM to trust at URL
	Admin   string // URL of the admin listener; empty: none is examined
}

// Examine runs all checks of muster doctor on a machine and server, and returns the findings.
func Examine(ctx context.Context, p Target) []Finding {
	var out []Finding
	m := newMachineReader()
	for _, examine := range []func(Target, machineReader) []Finding{examineOpenFiles, examineConnectionQueues, examinePortRange, examineMemory, examineDisk} {
		out = append(out, examine(p, m)...)
	}
	out = append(out, examineSyncTimes(ctx, p)...)
	out = append(out, examineClock(p, m)...)
	out = append(out, examineCertificates(p)...)
	out = append(out, examineSeries(p)...)
	for _, examine := range []func(context.Context, Target) []Finding{examineDatabases, examineAddresses, examineHistoryLag, examineAssets} {
		out = append(out, examine(ctx, p)...)
	}
	return out
}

// machineReader has the functions that read limits, memory, disk and clock from the kernel, replaceable in
// tests. Tests replace its functions.
type machineReader struct {
	read  func(path string) ([]byte, error) // of /proc and /sys
	files func() (soft, hard uint64)        // limits of open files; 0: unknown
	disk  func(path string) (free int64, kind string, err error)
	clock func() (synced, known bool)
}

// newMachineReader returns a machineReader that reads from the real kernel.
func newMachineReader() machineReader {
	return machineReader{os.ReadFile, fileLimits, diskFree, clockSynchronised}
}

// readNumber reads a file of /proc or /sys that contains one number
func (m machineReader) readNumber(path string) (int64, bool) {
	data, err := m.read(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// examineOpenFiles examines whether the process may open enough files for all agents.
func examineOpenFiles(p Target, m machineReader) []Finding {
	soft, hard := m.files()
	if hard == 0 {
		return nil
	}
	need := uint64(p.Agents + 1000)
	measured := fmt.Sprintf("%d at most", hard)
	if soft != hard {
		measured = fmt.Sprintf("%d, raised to %d automatically", soft, hard) // Go raises the soft limit at start
	}
	return Finding{Fine, "open files", measured, fmt.Sprintf("%d for %d agents", need, p.Agents), ""}.
		failUnless(hard >= need, Bad, fmt.Sprintf("systemctl edit muster: [Service] LimitNOFILE=%d", need*2))
}

// examineConnectionQueues checks the kernel's queues for incoming connections, which must hold all reconnecting
// agents. They must be long enough when all agents reconnect at once.
func examineConnectionQueues(p Target, m machineReader) []Finding {
	var out []Finding
	for _, q := range []struct{ file, key string }{
		{"/proc/sys/net/core/somaxconn", "net.core.somaxconn"},
		{"/proc/sys/net/ipv4/tcp_max_syn_backlog", "net.ipv4.tcp_max_syn_backlog"},
	} {
		have, ok := m.readNumber(q.file)
		if !ok {
			continue
		}
		need := int64(min(max(p.Agents/4, 1024), 16384))
		f := Finding{Fine, q.key, strconv.FormatInt(have, 10), fmt.Sprintf("%d, for all agents to reconnect at once", need), ""}
		out = append(out, f.failUnless(have >= need, Warn, fmt.Sprintf("sysctl -w %s=%d", q.key, need))...)
	}
	return out
}

// examinePortRange checks whether the kernel's range of local ports is large enough for outgoing connections
func examinePortRange(_ Target, m machineReader) []Finding {
	data, err := m.read("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return nil
	}
	var low, high int
	if _, err := fmt.Sscan(string(data), &low, &high); err != nil {
		return nil
	}
	f := Finding{Fine, "local ports", fmt.Sprintf("%d (%d–%d)", high-low+1, low, high), "20000, for load tests and proxies on this machine", ""}
	return f.failUnless(high-low+1 >= 20000, Warn, "sysctl -w net.ipv4.ip_local_port_range='15000 65000'")
}

// examineMemory examines whether the available memory suffices for all agents.
func examineMemory(p Target, m machineReader) []Finding {
	available, ok := m.availableMemory()
	if !ok {
		return nil
	}
	need := int64(256<<20) + int64(p.Agents)*(30_000+40*600)
	f := Finding{Fine, "memory", formatSize(available) + " available", fmt.Sprintf("about %s for %d agents with 40 checks", formatSize(need), p.Agents), ""}
	out := f.failUnless(available >= need, Warn, "give the machine more memory, or connect fewer agents to this server")
	if limit := debug.SetMemoryLimit(-1); limit > 0 && limit < 1<<60 {
		out = append(out, Finding{Fine, "memory limit (GOMEMLIMIT)", formatSize(limit), "", ""})
	}
	return out
}

// examineDisk checks the free space and the file system type of the disk with the data folder.
func examineDisk(p Target, m machineReader) []Finding {
	folder := nearestFolder(p.journalFolder())
	free, kind, err := m.disk(folder)
	if err != nil {
		return []Finding{{Bad, "disk", err.Error(), "", "check that " + folder + " can be read"}}
	}
	used := folderSize(p.journalFolder())
	need := p.Budget - used + 1<<30
	f := Finding{Fine, "free disk", formatSize(free) + " in " + folder, formatSize(max(need, 0)) + ": the rest of the journal's budget and 1 GiB", ""}
	out := f.failUnless(free >= need, Warn, fmt.Sprintf("free disk space, or start with --journal-budget %dMiB", max(free/2>>20, 64)))
	if free < fullDisk {
		out[0].Rating, out[0].Mend = Bad, FullDiskText(p.Data, folder)
	}
	k := Finding{Fine, "file system", kind, "local: ext4, xfs, btrfs, zfs", ""}
	switch kind {
	case "nfs", "cifs", "fuse":
		k.Rating, k.Mend = Bad, "put --data on a local disk: locks and fsync are not reliable here"
	case "tmpfs", "overlay":
		k.Rating, k.Mend = Warn, "put --data on a disk that survives a restart"
	}
	return append(out, k)
}

// examineClock examines whether the clock is synchronised.
func examineClock(_ Target, m machineReader) []Finding {
	synced, ok := m.clock()
	if !ok {
		return nil
	}
	if !synced {
		return []Finding{{Warn, "clock", "not synchronized, according to the kernel", "synchronized: results and notifications have the time of this machine", "timedatectl set-ntp true"}}
	}
	return []Finding{{Fine, "clock", "synchronised", "", ""}}
}

// examineCertificates finds unreadable and soon expiring certificates in the data folder.
func examineCertificates(p Target) []Finding {
	var out []Finding
	files, _ := filepath.Glob(filepath.Join(p.Data, "pki", "*.pem"))
	more, _ := filepath.Glob(filepath.Join(p.Data, "pki", "*.crt"))
	for _, path := range append(files, more...) {
		data, err := os.ReadFile(path)
		if err != nil {
			out = append(out, Finding{Bad, "certificate " + filepath.Base(path), err.Error(), "readable", "change the owner with chown to the user that runs Muster"})
			continue
		}
		block, _ := pem.Decode(data)
		if block == nil || block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			out = append(out, Finding{Bad, "certificate " + filepath.Base(path), err.Error(), "", "restore the file from a backup of " + p.Data})
			continue
		}
		out = append(out, rateCertificateLife(cert, filepath.Base(path), time.Now()))
	}
	return out
}

// rateCertificateLife returns a finding that rates how soon a certificate expires. The server renews its own
// certificate when a third of its life is left; nobody renews the CA's.
func rateCertificateLife(cert *x509.Certificate, file string, now time.Time) Finding {
	left := cert.NotAfter.Sub(now)
	f := Finding{Fine, "certificate " + file, "until " + cert.NotAfter.UTC().Format(time.DateOnly), "", ""}
	switch {
	case left <= 0:
		f.Rating, f.Measured = Bad, "ended "+cert.NotAfter.UTC().Format(time.DateOnly)
	case left < 48*time.Hour:
		f.Rating, f.Measured = Warn, f.Measured+fmt.Sprintf(", %d hours", int(left.Hours()))
	default:
		f.Measured += fmt.Sprintf(", %d days", int(left.Hours()/24))
		if cert.IsCA && left < 365*24*time.Hour || !cert.IsCA && left < 7*24*time.Hour {
			f.Rating = Warn
		}
	}
	switch {
	case f.Rating == Fine && cert.IsCA:
		f.Needed = "more than a year"
	case f.Rating == Fine:
		f.Needed = "the server renews the certificate automatically"
	case cert.IsCA:
		f.Needed, f.Mend = "more than a year: all agents trust it", "plan a new enrolment of all agents: a new data folder makes a new CA"
	default:
		f.Needed, f.Mend = "the running server renews the certificate long before its end", "check the server's clock and log, then restart the server, which renews the certificate"
	}
	return f
}

// examineAddresses checks that the server answers at its URL and reports itself ready.
func examineAddresses(ctx context.Context, p Target) []Finding {
	if p.URL == "" {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.CA) {
		pool = nil
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(p.URL, "/")+"/readyz", nil)
	if err != nil {
		return []Finding{{Bad, "server", err.Error(), "a URL", "muster login https://HOST:8443"}}
	}
	resp, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error // repeats the address
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		mend := "start the server: muster up, or systemctl start muster"
		shown := pki.RefusedCertificate{Server: req.URL.Host, Trusted: pki.SumOfPEM(p.CA), Now: time.Now()}
		if e := shown.ForPeople(err); e != nil {
			return []Finding{{Bad, "server", e.Message, p.URL + " answers", e.Hint}}
		}
		var dns *net.DNSError
		switch {
		case errors.As(err, &dns) && dns.IsNotFound:
			err, mend = errors.New("cannot find the host "+req.URL.Hostname()), "check the host name: getent hosts "+req.URL.Hostname()
		case errors.Is(err, context.DeadlineExceeded):
			err, mend = errors.New("listens, but does not answer within 5 s"), "read the server's log: the server is starting, its disk is full, or the server hangs"
		}
		return []Finding{{Bad, "server", err.Error(), p.URL + " answers", mend}}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		reason, _ := bufio.NewReader(io.LimitReader(resp.Body, 4<<10)).ReadString('\n')
		return []Finding{{Bad, "server", p.URL + " is not ready: " + cmp.Or(strings.TrimSpace(reason), resp.Status), "ready", "muster status"}}
	}
	return []Finding{{Fine, "server", p.URL + " is ready", "", ""}}
}

// journalFolder returns the folder of the examined server's journal.
func (p Target) journalFolder() string {
	if p.Journal != "" {
		return p.Journal
	}
	return filepath.Join(p.Data, "journal")
}

// nearestFolder returns the folder at path or its nearest existing parent.
func nearestFolder(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return "."
	}
	for {
		if info, err := os.Stat(path); err == nil && info.IsDir() || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// folderSize returns the total size in bytes of all files in a folder
func folderSize(path string) (total int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	return total
}

// formatSize formats a size in bytes for people, such as 1.5 GiB.
func formatSize(bytes int64) string { return model.Size(bytes).Approximate() }

// openAdminPage requests a page of the server's admin listener by HTTP. It returns nil if the listener is not
// configured or does not answer.
func openAdminPage(ctx context.Context, p Target, path string, timeout time.Duration) io.ReadCloser {
	if p.Admin == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(p.Admin, "/")+path, nil)
	if err != nil {
		return nil
	}
	resp, err := (&http.Client{Timeout: timeout}).Do(req)
	if err != nil {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil
	}
	return resp.Body
}
