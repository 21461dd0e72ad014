package agent

import (
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// facts measures the few things that groups are made of.
func facts() map[string]string {
	host, _ := os.Hostname()
	f := map[string]string{
		"hostname": host, "os": runtime.GOOS, "arch": runtime.GOARCH,
		"cpus": strconv.Itoa(runtime.NumCPU()), "addresses": strings.Join(addresses(), ","),
	}
	systemFacts(f)
	for k, v := range f {
		if v == "" {
			delete(f, k)
		}
	}
	return f
}

// addresses lists the machine's own, without loopback and link-local ones.
func addresses() []string {
	list, _ := net.InterfaceAddrs()
	var out []string
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(out) < 32 {
			out = append(out, n.IP.String())
		}
	}
	slices.Sort(out)
	return out
}

func readFile(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func formatBytes(n uint64) string { return strconv.FormatUint(n, 10) }
