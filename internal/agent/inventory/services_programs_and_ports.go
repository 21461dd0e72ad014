package inventory

import (
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/inventory"
)

// serviceFolders has the folders of systemd's units; an earlier folder wins.
var serviceFolders = [...]string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}

// services returns the inventory entries of the services of systemd and of SysV scripts.
func (m *Machine) services() (list []inventory.Entry) {
	enabled := map[string]bool{}
	for _, folder := range m.fileNames("etc/systemd/system") {
		if strings.HasSuffix(folder, ".wants") || strings.HasSuffix(folder, ".requires") {
			for _, name := range m.fileNames("etc/systemd/system/" + folder) {
				enabled[name] = true
			}
		}
	}
	systemd := m.fileExists("run/systemd/system")
	seen := map[string]bool{}
	add := func(name, start string) {
		state := "stopped"
		if m.fileExists("sys/fs/cgroup/system.slice/"+name) || m.fileExists("sys/fs/cgroup/systemd/system.slice/"+name) {
			state = "running"
		}
		if !systemd { // such as in a container
			state = ""
		}
		seen[name] = true
		list = append(list, inventory.New(inventory.Services, strings.TrimSuffix(name, ".service"), start, state, "systemd"))
	}
	for _, folder := range serviceFolders {
		for _, name := range m.fileNames(folder) {
			if !strings.HasSuffix(name, ".service") || strings.HasSuffix(name, "@.service") || seen[name] {
				continue
			}
			file, start := folder+"/"+name, "static"
			link, _ := fs.ReadLink(m.Root, file)
			switch {
			case link == "/dev/null":
				start = "masked"
			case link != "" && path.Base(link) != name:
				continue // another name of a service
			case enabled[name]:
				start = "enabled"
			case strings.Contains(m.fileText(file), "\n[Install]"):
				start = "disabled"
			}
			add(name, start)
		}
	}
	for name := range enabled { // instances of templates
		if strings.HasSuffix(name, ".service") && strings.Contains(name, "@") && !seen[name] {
			add(name, "enabled")
		}
	}
	runlevel := map[string]bool{}
	for _, level := range []string{"2", "3", "4", "5"} {
		for _, folder := range []string{"etc/rc" + level + ".d", "etc/rc.d/rc" + level + ".d"} {
			for _, name := range m.fileNames(folder) {
				if len(name) > 3 && name[0] == 'S' {
					runlevel[name[3:]] = true
				}
			}
		}
	}
	for _, name := range m.fileNames("etc/init.d") {
		info, err := fs.Stat(m.Root, "etc/init.d/"+name)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || seen[name+".service"] || name == "skeleton" {
			continue
		}
		start := "disabled"
		if runlevel[name] {
			start = "enabled"
		}
		list = append(list, inventory.New(inventory.Services, name, start, "", "sysv"))
	}
	return list
}

// youngProcess is the minimum age of a listed program in seconds: a younger one may be the command of a check.
const youngProcess = 60

// programs returns the inventory entries of the running programs, one for each program and user. The map sockets has
// the program of each socket, by the socket's inode. Threads of the kernel are left out.
func (m *Machine) programs() (list []inventory.Entry, sockets map[string]string) {
	sockets = map[string]string{}
	uptime, _ := strconv.ParseFloat(strings.Split(m.fileFirstLine("proc/uptime"), " ")[0], 64)
	userOf := m.userNames()
	for _, pid := range m.fileNames("proc") {
		if pid[0] < '0' || pid[0] > '9' {
			continue
		}
		_, rest, ok := strings.Cut(m.fileText("proc/"+pid+"/stat"), " (")
		end := strings.LastIndex(rest, ") ")
		if !ok || end < 0 {
			continue // it has ended
		}
		name, fields := rest[:end], strings.Fields(rest[end+2:])
		if len(fields) < 20 || fields[1] == "2" || pid == "2" { // the kernel's threads are children of process 2
			continue
		}
		command, _, _ := strings.Cut(m.fileText("proc/"+pid+"/cmdline"), "\x00")
		if program, _, _ := strings.Cut(path.Base(command), " "); len(name) == 15 && strings.HasPrefix(program, name) {
			name = program // the kernel cuts names after 15 bytes
		}
		for _, fd := range m.fileNames("proc/" + pid + "/fd") {
			if target, err := fs.ReadLink(m.Root, "proc/"+pid+"/fd/"+fd); err == nil {
				if inode, ok := strings.CutPrefix(target, "socket:["); ok {
					sockets[strings.TrimSuffix(inode, "]")] = name
				}
			}
		}
		started, _ := strconv.ParseFloat(fields[19], 64)
		if uptime-started/100 < youngProcess {
			continue
		}
		uid := ""
		for line := range strings.Lines(m.fileText("proc/" + pid + "/status")) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
				uid = f[1]
			}
		}
		list = append(list, inventory.New(inventory.Processes, name, userOf(uid)))
	}
	return list, sockets
}

// ports returns the inventory entries of the listening ports, with the names of their programs. A name is missing
// where the agent may not read it.
func (m *Machine) ports(sockets map[string]string) (list []inventory.Entry) {
	firstClient := 32768 // ports from here on are clients' that listen for answers
	if f := strings.Fields(m.fileFirstLine("proc/sys/net/ipv4/ip_local_port_range")); len(f) == 2 {
		firstClient, _ = strconv.Atoi(f[0])
	}
	for _, table := range []struct{ file, protocol, state string }{{"tcp", "tcp", "0A"}, {"tcp6", "tcp", "0A"}, {"udp", "udp", "07"}, {"udp6", "udp", "07"}} {
		for line := range strings.Lines(m.fileText("proc/net/" + table.file)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != table.state {
				continue
			}
			address, port, ok := socketAddress(f[1])
			if !ok || table.protocol == "udp" && port >= firstClient {
				continue
			}
			name := sockets[f[9]]
			if name == "" {
				name = "unknown"
			}
			list = append(list, inventory.New(inventory.Ports, name, table.protocol, address.String(), strconv.Itoa(port)))
		}
	}
	return list
}

// socketAddress parses a hexadecimal address of /proc/net/tcp, such as 0100007F:1F90. Its words have the machine's
// byte order.
func socketAddress(text string) (address netip.Addr, port int, ok bool) {
	host, portText, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, errPort := strconv.ParseUint(portText, 16, 16)
	if err != nil || errPort != nil || len(raw)%4 != 0 {
		return address, 0, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	address, ok = netip.AddrFromSlice(raw)
	return address.Unmap(), int(number), ok
}

// interfaceAddresses returns the addresses of the machine's interfaces.
func interfaceAddresses() map[string][]netip.Prefix {
	found := map[string][]netip.Prefix{}
	list, _ := net.Interfaces()
	for _, one := range list {
		addresses, _ := one.Addrs()
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				found[one.Name] = append(found[one.Name], p)
			}
		}
		slices.SortFunc(found[one.Name], func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	}
	return found
}
