package facts

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// System is the machine that a Meter measures.
type System struct {
	Root       fs.FS                                                 // the folder /
	CPUs       int                                                   // usable by the agent
	OS, Arch   string                                                // in Go's words
	Hostname   func() string                                         // where /proc does not have it
	Interfaces func() []netip.Prefix                                 // addresses of the machine's own
	Canonical  func(ctx context.Context, host string) (string, bool) // asks the resolver
}

// LocalSystem returns the machine that the program runs on.
func LocalSystem() System {
	return System{
		Root: os.DirFS("/"), CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Hostname:   func() string { host, _ := os.Hostname(); return host },
		Interfaces: interfaces, Canonical: canonical,
	}
}

// Meter measures one system again and again. Safe for concurrent use.
type Meter struct {
	system System

	mu   sync.Mutex
	full fullName // of the resolver
}

// New returns a Meter that has read nothing yet.
func New(s System) *Meter { return &Meter{system: s} }

// Measure reads the present facts from small files and the list of interfaces, without DNS. Unknown
// facts are left out. The caller owns the map.
func (m *Meter) Measure() map[string]string {
	t := tree{m.system.Root}
	host := t.line("proc/sys/kernel/hostname")
	if host == "" && m.system.Hostname != nil {
		host = m.system.Hostname()
	}
	f := map[string]string{
		Hostname: host, FQDN: m.fqdn(t, host), OS: m.system.OS, Arch: m.system.Arch,
		CPUs: strconv.Itoa(m.system.CPUs), Kernel: t.line("proc/sys/kernel/osrelease"), Memory: t.memory(),
	}
	if m.system.Interfaces != nil {
		f[Addresses] = addresses(m.system.Interfaces())
	}
	t.distribution(f)
	if m.system.OS == "linux" {
		f[Virtualisation] = t.virtualisation()
	}
	t.cloud(f)
	for name, value := range f {
		if f[name] = clean(value); f[name] == "" {
			delete(f, name)
		}
	}
	return f
}

// maxValue is the longest fact in bytes.
const maxValue = 2048

// clean removes control characters and invalid UTF-8.
func clean(value string) string {
	value = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(value, ""))
	value = strings.TrimSpace(value)
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "")
	}
	return value
}

// maxAddresses bounds the addresses of one fact: container hosts have hundreds.
const maxAddresses = 32

// addresses returns the machine's global addresses, without loopback and link-local ones.
func addresses(list []netip.Prefix) string {
	var out []netip.Addr
	for _, p := range list {
		if a := p.Addr().Unmap().WithZone(""); a.IsGlobalUnicast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare) // v4 first
	out = out[:min(len(out), maxAddresses)]
	texts := make([]string, len(out))
	for i, a := range out {
		texts[i] = a.String()
	}
	return strings.Join(texts, ",")
}

func interfaces() (list []netip.Prefix) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// tree is the file system of a machine.
type tree struct{ fs.FS }

// maxFile is the part of a file in bytes that is read.
const maxFile = 1 << 20

// text returns a file's content; empty where it cannot be read.
func (t tree) text(path string) string {
	f, err := t.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxFile))
	return string(data)
}

// line returns a file's first line without surrounding space.
func (t tree) line(path string) string {
	first, _, _ := strings.Cut(t.text(path), "\n")
	return strings.TrimSpace(first)
}

func (t tree) exists(path string) bool {
	_, err := fs.Stat(t, path)
	return err == nil
}

// memory returns the kernel's usable memory in bytes.
func (t tree) memory() string {
	for line := range strings.Lines(t.text("proc/meminfo")) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 53)
			if err == nil {
				return strconv.FormatUint(kib*1024, 10)
			}
		}
	}
	return ""
}

// distribution reads os-release(5) in /etc or else in /usr/lib.
func (t tree) distribution(f map[string]string) {
	text := t.text("etc/os-release")
	if text == "" {
		text = t.text("usr/lib/os-release")
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ID":
			f[Distribution] = unquoted(value)
		case "VERSION_ID":
			f[DistributionVersion] = unquoted(value)
		case "PRETTY_NAME":
			f[DistributionName] = unquoted(value)
		}
	}
}

// unquoted returns a value of a shell-compatible file without its quotes.
func unquoted(v string) string {
	if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
		v = v[1 : n-1]
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(v)
}
