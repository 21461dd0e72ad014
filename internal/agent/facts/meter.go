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

// System is what a Meter looks at.
type System struct {
	Root       fs.FS                                                 // the folder /
	CPUs       int                                                   // that the agent may use
	OS, Arch   string                                                // as Go calls them
	Hostname   func() string                                         // where the tree does not say it
	Interfaces func() []netip.Prefix                                 // addresses of the machine's own
	Canonical  func(ctx context.Context, host string) (string, bool) // asks the resolver
}

// This is the machine that the program runs on.
func This() System {
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
	full fullName // as the resolver said
}

// New makes a Meter; nothing is read yet.
func New(s System) *Meter { return &Meter{system: s} }

// Measure reads what the machine is now: some small files and the list of interfaces,
// no DNS. What is not known is left out. The map is the caller's.
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

// maxValue is how long a fact may be, in bytes.
const maxValue = 2048

// clean leaves what people can read on one line.
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

// maxAddresses is how many are said: hosts of containers have hundreds.
const maxAddresses = 32

// addresses are those by which others may reach the machine: neither loopback nor
// link-local.
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

// maxFile bounds what is read of one file; all that matters stands at the beginning.
const maxFile = 1 << 20

// text is a file's content; empty where it cannot be read.
func (t tree) text(path string) string {
	f, err := t.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxFile))
	return string(data)
}

// line is a file's first line, without space around it.
func (t tree) line(path string) string {
	first, _, _ := strings.Cut(t.text(path), "\n")
	return strings.TrimSpace(first)
}

func (t tree) exists(path string) bool {
	_, err := fs.Stat(t, path)
	return err == nil
}

// memory is what the kernel can use, in bytes.
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

// distribution reads os-release(5): /etc first, then what the packages brought.
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

// unquoted is a value of a file that the shell could read.
func unquoted(v string) string {
	if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
		v = v[1 : n-1]
	}
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(v)
}
