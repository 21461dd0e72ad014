package collect

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// measureFunc is a function that measures one item on the local machine and returns its value. Kind None without error
// is no value yet, such as the first of two that are compared.
type measureFunc func(ctx context.Context, m *machine, k *Key) (item.Value, error)

// collector describes how the agent collects one item key. It has the key's parameters, the measuring function and the
// documentation.
type collector struct {
	parameters string      // of the key, as in the reference page; empty: none
	measure    measureFunc // nil: measuresOfSystem has the function, if this system has the key
	summary    string      // of its value, for the reference page
	// It waits for a disk, a program or the network: it runs with a time limit, in a goroutine of its own.
	waits   bool
	systems systems // that have the key
}

// systems is a set of operating systems.
type systems uint8

const (
	onLinux systems = 1 << iota
	onMacOS
	onFreeBSD
	onWindows
	underWine // a test measures the key with Wine in place of Windows

	onUnix     = onLinux | onMacOS | onFreeBSD
	everywhere = onUnix | onWindows | underWine
	wine       = onWindows | underWine
)

// systemNames are the names of the systems in texts, in the order of their bits.
var systemNames = [...]string{"Linux", "macOS", "FreeBSD", "Windows"}

// String returns the names of the systems, as in "Linux, Windows".
func (s systems) String() string {
	var names []string
	for i, name := range systemNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// measureElsewhere returns the error for a key that only other systems have.
func measureElsewhere(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	return item.Value{}, fmt.Errorf("%s: agents collect this key on %s only, not on %s", k.Name, collectorTable()[k.Name].systems, runtime.GOOS)
}

// check returns an error if an item key has more parameters than its collector accepts
func (c *collector) check(k *Key) error {
	most := 0
	if c.parameters != "" {
		most = strings.Count(c.parameters, ",") + 1
	}
	if len(k.Parameters) > most {
		return fmt.Errorf("%s: too many parameters; write %s%s", k.Name, k.Name, c.parameters)
	}
	return nil
}

// nameParameters are the parameters of net.dns.
const nameParameters = "[server,name,A|AAAA|CNAME|MX|NS|PTR|SOA|SRV|TXT,seconds of a try,tries,udp|tcp]"

// collectors returns the table of all functions that measure items on the agent's system. The key of the table is the name in
// the item key, such as system.cpu.util.
func collectors() map[string]collector {
	table, own := collectorTable(), measuresOfSystem()
	for name, c := range table {
		if own[name] != nil {
			c.measure = own[name]
		} else if c.measure == nil {
			c.measure, c.waits = measureElsewhere, false
		}
		table[name] = c
	}
	return table
}

// collectorTable returns the item keys of all systems, with the functions that all systems share.
func collectorTable() map[string]collector {
	return map[string]collector{
		"agent.hostname": {"", hostname, "the host name of the machine", false, everywhere},
		"agent.ping":     {"", agentPing, "1", false, everywhere},
		"agent.variant":  {"", agentPing, "1: the keys are those of Zabbix agent 1", false, everywhere},
		"agent.version":  {"", agentVersion, "the version of the agent", false, everywhere},

		"icmpping":     {pingParameters, icmpPing, "1 if the target answers an ICMP echo request, else 0", true, everywhere},
		"icmppingloss": {pingParameters, icmpPing, "share of the requests without a reply, in percent", true, everywhere},
		"icmppingsec":  {strings.Replace(pingParameters, ",allow", ",avg|min|max,allow", 1), icmpPing, "seconds until the replies; 0: none came", true, everywhere},

		"kernel.maxfiles":  {"", nil, "the most files that may be open", false, onUnix},
		"kernel.maxproc":   {"", nil, "the most processes", false, onUnix},
		"kernel.openfiles": {"", nil, "open files", false, onUnix},

		"log":         {"[file,regular expression,encoding,most lines a second,all|skip,output,most delay,options,folder]", noSingleValue, "each new line that matches, or the output with \\0 to \\9; it follows the file across rotation and restarts", false, everywhere},
		"log.count":   {"[file,regular expression,encoding,most lines a second,all|skip,most delay,options,folder]", noSingleValue, "number of new lines that match", false, everywhere},
		"logrt":       {"[folder and regular expression of names,regular expression,encoding,most lines a second,all|skip,output,most delay,options,folder]", noSingleValue, "as log, of all files whose names match", false, everywhere},
		"logrt.count": {"[folder and regular expression of names,regular expression,encoding,most lines a second,all|skip,most delay,options,folder]", noSingleValue, "number of new lines that match, of all files whose names match", false, everywhere},

		"net.dns":        {nameParameters, dnsItems, "1 if the DNS server has the record, else 0; no server: the first one in /etc/resolv.conf, none on Windows", true, onUnix | onWindows},
		"net.dns.perf":   {nameParameters, dnsItems, "seconds until the DNS server has answered; 0: no answer", true, onUnix | onWindows},
		"net.dns.record": {nameParameters, dnsItems, "the records, one a line", true, onUnix | onWindows},

		"net.if.collisions": {"[interface]", nil, "collisions since boot", false, onUnix},
		"net.if.discovery":  {"", nil, "JSON: the interfaces", false, everywhere},
		"net.if.in":         {"[interface,bytes|packets|errors|dropped|overruns|frame|compressed|multicast]", nil, "received since boot", false, everywhere},
		"net.if.list":       {"", nil, "the interfaces, one a line: type, state, IPv4 address, description", false, wine},
		"net.if.out":        {"[interface,bytes|packets|errors|dropped|overruns|collisions|carrier|compressed]", nil, "sent since boot", false, everywhere},
		"net.if.total":      {"[interface,bytes|packets|errors|dropped|overruns|compressed]", nil, "received and sent since boot", false, everywhere},

		"net.tcp.listen":       {"[port]", nil, "1 if a program of this machine listens, else 0", false, onLinux | wine},
		"net.tcp.port":         {"[address,port]", tcpPort, "1 if the port accepts a connection, else 0; no address: 127.0.0.1", true, everywhere},
		"net.tcp.service":      {"[ftp|http|https|imap|nntp|pop|smtp|ssh|tcp,address,port]", tcpService, "1 if the service answers as it should, else 0", true, everywhere},
		"net.tcp.service.perf": {"[ftp|http|https|imap|nntp|pop|smtp|ssh|tcp,address,port]", tcpService, "seconds until the service has answered; 0: no answer", true, everywhere},
		"net.udp.listen":       {"[port]", nil, "1 if a program of this machine listens, else 0", false, onLinux | wine},

		"perf_counter":               {"[path,seconds]", nil, "a performance counter, as the mean of 1 to 900 seconds; names or numbers, in the language of the machine", true, wine},
		"perf_counter_en":            {"[path,seconds]", nil, "as perf_counter, with names in English", true, wine},
		"perf_instance.discovery":    {"[object]", nil, "JSON: the instances of an object of performance counters", true, onWindows},
		"perf_instance_en.discovery": {"[object]", nil, "as perf_instance.discovery, with the name in English", true, onWindows},

		"proc.mem": {"[name,user,sum|avg|max|min,command line,vsize|rss|pmem|size|data|exe|hwm|lck|lib|peak|pin|pte|stk|swap]", nil, "memory of the processes that match; the command line is a regular expression", false, onLinux},
		"proc.num": {"[name,user,all|run|sleep|zomb|disk|trace,command line]", nil, "number of processes that match", false, everywhere},

		"proc_info": {"[name,vmsize|wkset|pf|ktime|utime|gdiobj|userobj|io_read_b|io_read_op|io_write_b|io_write_op|io_other_b|io_other_op,avg|min|max|sum]", nil, "an attribute of the processes with a name: memory in KiB, times in milliseconds", false, wine},

		"registry.data": {"[key,name]", nil, "a value of the registry as text; bytes in Base64", true, wine},
		"registry.get":  {"[key,values|keys,regexp]", nil, "JSON: the values (with names that match) or keys below a key of the registry", true, wine},

		"service.discovery": {"", nil, "JSON: the services with their states", true, wine},
		"service.info":      {"[service,state|displayname|path|user|startup|description]", nil, "state: 0 running, 1 paused, 2 start, 3 pause, 4 continue, 5 stop pending, 6 stopped, 7 unknown, 255 no such service; startup: 0 automatic, 1 delayed, 2 manual, 3 disabled, 4 unknown, 5 to 7 with a trigger", true, wine},
		"service_state":     {"[service]", nil, "the state of service.info: an old name", true, wine},
		"services":          {"[all|automatic|manual|disabled,all|stopped|started|start_pending|stop_pending|running|continue_pending|pause_pending|paused,excluded services]", nil, "names of the services, one a line; 0: none", true, wine},

		"system.boottime":      {"", nil, "time of the boot, in seconds since 1970", false, onUnix},
		"system.cpu.discovery": {"", nil, "JSON: the CPUs with their states", false, onLinux | wine},
		"system.cpu.intr":      {"", nil, "interrupts since boot", false, onLinux | onFreeBSD},
		"system.cpu.load":      {"[all|percpu,avg1|avg5|avg15]", nil, "load average", false, onUnix | onWindows},
		"system.cpu.num":       {"[online|max]", nil, "number of CPUs", false, everywhere},
		"system.cpu.switches":  {"", nil, "context switches since boot", false, onLinux | onFreeBSD},
		"system.cpu.util":      {"[all|N,user|nice|system|idle|iowait|interrupt|softirq|steal,avg1]", nil, "share of the time since the last collection, in percent", false, onLinux | onFreeBSD | wine},
		"system.hostname":      {"[host|shorthost,none|lower]", hostname, "the host name of the machine; on Windows `netbios` is the first type", false, everywhere},
		"system.localtime":     {"[utc|local]", localTime, "seconds since 1970, or date, time and zone", false, everywhere},
		"system.sw.arch":       {"", architecture, "architecture of the machine", false, everywhere},
		"system.sw.os":         {"[full|short|name]", nil, "the operating system", false, onLinux | wine},
		"system.run":           {"[command,wait]", runCommand, "output of a shell command, where the agent may run it (`--allow-commands`)", true, everywhere},
		"system.swap.in":       {"[all|device,pages|count|sectors]", nil, "read from swap since boot", false, onLinux},
		"system.swap.out":      {"[all|device,pages|count|sectors]", nil, "written to swap since boot", false, onLinux},
		"system.swap.size":     {"[all,free|total|used|pfree|pused]", nil, "swap in bytes, or its share in percent", false, everywhere},
		"system.uname":         {"", nil, "name, host, release, version and architecture of the system", false, everywhere},
		"system.uptime":        {"", nil, "seconds since boot", false, everywhere},
		"system.users.num":     {"", nil, "number of users who are logged in", false, onLinux},

		"vfs.dev.discovery": {"", nil, "JSON: the block devices", false, onLinux},
		"vfs.dev.read":      {"[device,ops|sps|operations|sectors,avg1]", nil, "reads: ops and sps a second since the last collection, operations and sectors since boot; no device: all", false, onLinux},
		"vfs.dev.write":     {"[device,ops|sps|operations|sectors,avg1]", nil, "writes, as vfs.dev.read", false, onLinux},
		"vfs.dir.count":     {"[path,include,exclude,types,except,depth,least size,most size,least age,most age,excluded folders]", folderCount, "number of files below a folder; names by regular expressions", true, everywhere},
		"vfs.dir.size":      {"[path,include,exclude,apparent|disk,depth,excluded folders]", folderSize, "bytes of the files and folders below a folder", true, everywhere},
		"vfs.file.cksum":    {"[path,crc32|md5|sha256]", fileChecksum, "checksum of a file; crc32 as cksum(1)", true, everywhere},
		"vfs.file.contents": {"[path,encoding]", fileContents, "text of a file, at most 64 KiB", true, everywhere},
		"vfs.file.exists":   {"[path,types,except]", fileExists, "1 or 0; types are file (default), dir, sym, sock, bdev, cdev, dev, fifo, all", true, everywhere},
		"vfs.file.md5sum":   {"[path]", fileChecksum, "MD5 checksum of a file", true, everywhere},
		"vfs.file.regexp":   {"[path,regexp,encoding,first line,last line,output]", fileMatch, "the first line that matches, or the output with \\0 to \\9", true, everywhere},
		"vfs.file.regmatch": {"[path,regexp,encoding,first line,last line]", fileMatch, "1 if a line matches, else 0", true, everywhere},
		"vfs.file.size":     {"[path,bytes|lines]", fileSize, "size of a file", true, everywhere},
		"vfs.file.time":     {"[path,modify|access|change]", fileTime, "time of a file, in seconds since 1970", true, everywhere},
		"vfs.fs.discovery":  {"", nil, "JSON: the mounted file systems", false, everywhere},
		"vfs.fs.get":        {"", nil, "JSON: the mounted file systems with their sizes", true, everywhere},
		"vfs.fs.inode":      {"[path,total|free|used|pfree|pused]", nil, "inodes of a file system", true, onUnix},
		"vfs.fs.size":       {"[path,total|free|used|pfree|pused]", fileSystemSize, "size of a file system in bytes, or a share in percent", true, everywhere},

		"web.certificate.get": {"[host,port,address]", webCertificate, "JSON: the certificate of a TLS server, and whether it is valid; as Zabbix agent 2", true, everywhere},
		"web.page.get":        {"[host or URL,path,port]", webPage, "text of a page with its head; certificates are verified, redirects are not followed", true, everywhere},
		"web.page.perf":       {"[host or URL,path,port]", webPageTime, "seconds until a page is there", true, everywhere},
		"web.page.regexp":     {"[host or URL,path,port,regexp,length,output]", webPageMatch, "the first match in a page with its head, or the output with \\0 to \\9", true, everywhere},

		"vm.vmemory.size": {"[available|pavailable|total|used|pused]", nil, "memory and page files together in bytes, or a share in percent", false, wine},

		"wmi.get":    {"[namespace,query]", nil, "the first property of the first object that a WMI query finds", true, wine},
		"wmi.getall": {"[namespace,query]", nil, "JSON: all objects that a WMI query finds", true, wine},

		"vm.memory.size": {"[total|free|available|pavailable|used|pused|buffers|cached|active|inactive|slab|anon]", nil, "memory in bytes, or a share in percent", false, everywhere},
	}
}

// Check returns an error if an item key is invalid, or unknown to agents of the present version. The error has the
// reason.
func Check(key string) error {
	k, err := ParseKey(key)
	if err != nil {
		return err
	}
	known := collectors()
	if c, ok := known[k.Name]; ok {
		if err := c.check(&k); err != nil || !isLogKey(k.Name) {
			return err
		}
		_, err := parseLogItem(&k, key, "")
		return err
	}
	names := slices.Sorted(maps.Keys(known))
	if near := model.Nearest(k.Name, names); near != "" {
		return fmt.Errorf("unknown item key %s: did you mean %s?", k.Name, near)
	}
	return fmt.Errorf("unknown item key %s; docs/reference/keys.md lists the keys that agents collect", k.Name)
}
