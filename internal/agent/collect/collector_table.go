package collect

import (
	"context"
	"fmt"
	"maps"
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
	parameters string // of the key, as in the reference page; empty: none
	measure    measureFunc
	summary    string // of its value, for the reference page
	// It waits for a disk, a program or the network: it runs with a time limit, in a goroutine of its own.
	waits bool
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

// collectors returns the table of all functions that measure items. The key of the table is the name in the item key,
// such as system.cpu.util.
func collectors() map[string]collector {
	return map[string]collector{
		"agent.hostname": {"", hostname, "the host name of the machine", false},
		"agent.ping":     {"", agentPing, "1", false},
		"agent.variant":  {"", agentPing, "1: the keys are those of Zabbix agent 1", false},
		"agent.version":  {"", agentVersion, "the version of the agent", false},

		"icmpping":     {pingParameters, icmpPing, "1 if the target answers an ICMP echo request, else 0", true},
		"icmppingloss": {pingParameters, icmpPing, "share of the requests without a reply, in percent", true},
		"icmppingsec":  {strings.Replace(pingParameters, ",allow", ",avg|min|max,allow", 1), icmpPing, "seconds until the replies; 0: none came", true},

		"kernel.maxfiles":  {"", kernelNumber("/proc/sys/fs/file-max"), "the most files that may be open", false},
		"kernel.maxproc":   {"", kernelNumber("/proc/sys/kernel/pid_max"), "the most processes", false},
		"kernel.openfiles": {"", kernelNumber("/proc/sys/fs/file-nr"), "open files", false},

		"log":         {"[file,regular expression,encoding,most lines a second,all|skip,output,most delay,options,folder]", noSingleValue, "each new line that matches, or the output with \\0 to \\9; it follows the file across rotation and restarts", false},
		"log.count":   {"[file,regular expression,encoding,most lines a second,all|skip,most delay,options,folder]", noSingleValue, "number of new lines that match", false},
		"logrt":       {"[folder and regular expression of names,regular expression,encoding,most lines a second,all|skip,output,most delay,options,folder]", noSingleValue, "as log, of all files whose names match", false},
		"logrt.count": {"[folder and regular expression of names,regular expression,encoding,most lines a second,all|skip,most delay,options,folder]", noSingleValue, "number of new lines that match, of all files whose names match", false},

		"net.dns":        {nameParameters, dnsItems, "1 if the DNS server has the record, else 0; no server: the first one in /etc/resolv.conf", true},
		"net.dns.perf":   {nameParameters, dnsItems, "seconds until the DNS server has answered; 0: no answer", true},
		"net.dns.record": {nameParameters, dnsItems, "the records, one a line", true},

		"net.if.collisions": {"[interface]", networkCollisions, "collisions since boot", false},
		"net.if.discovery":  {"", discoverInterfaces, "JSON: the interfaces", false},
		"net.if.in":         {"[interface,bytes|packets|errors|dropped|overruns|frame|compressed|multicast]", networkTraffic(true, false), "received since boot", false},
		"net.if.out":        {"[interface,bytes|packets|errors|dropped|overruns|collisions|carrier|compressed]", networkTraffic(false, true), "sent since boot", false},
		"net.if.total":      {"[interface,bytes|packets|errors|dropped|overruns|compressed]", networkTraffic(true, true), "received and sent since boot", false},

		"net.tcp.listen":       {"[port]", socketListens("tcp", "0A"), "1 if a program of this machine listens, else 0", false},
		"net.tcp.port":         {"[address,port]", tcpPort, "1 if the port accepts a connection, else 0; no address: 127.0.0.1", true},
		"net.tcp.service":      {"[ftp|http|https|imap|nntp|pop|smtp|ssh|tcp,address,port]", tcpService, "1 if the service answers as it should, else 0", true},
		"net.tcp.service.perf": {"[ftp|http|https|imap|nntp|pop|smtp|ssh|tcp,address,port]", tcpService, "seconds until the service has answered; 0: no answer", true},
		"net.udp.listen":       {"[port]", socketListens("udp", "07"), "1 if a program of this machine listens, else 0", false},

		"proc.mem": {"[name,user,sum|avg|max|min,command line,vsize|rss|pmem|size|data|exe|hwm|lck|lib|peak|pin|pte|stk|swap]", processMemory, "memory of the processes that match; the command line is a regular expression", false},
		"proc.num": {"[name,user,all|run|sleep|zomb|disk|trace,command line]", processNumber, "number of processes that match", false},

		"system.boottime":      {"", kernelStat("btime"), "time of the boot, in seconds since 1970", false},
		"system.cpu.discovery": {"", discoverCPUs, "JSON: the CPUs with their states", false},
		"system.cpu.intr":      {"", kernelStat("intr"), "interrupts since boot", false},
		"system.cpu.load":      {"[all|percpu,avg1|avg5|avg15]", cpuLoad, "load average", false},
		"system.cpu.num":       {"[online|max]", cpuNumber, "number of CPUs", false},
		"system.cpu.switches":  {"", kernelStat("ctxt"), "context switches since boot", false},
		"system.cpu.util":      {"[all|N,user|nice|system|idle|iowait|interrupt|softirq|steal,avg1]", cpuUtil, "share of the time since the last collection, in percent", false},
		"system.hostname":      {"[host|shorthost,none|lower]", hostname, "the host name of the machine", false},
		"system.localtime":     {"[utc|local]", localTime, "seconds since 1970, or date, time and zone", false},
		"system.sw.arch":       {"", architecture, "architecture of the machine", false},
		"system.sw.os":         {"[full|short|name]", operatingSystem, "the operating system", false},
		"system.run":           {"[command,wait]", runCommand, "output of a shell command, where the agent may run it (`--allow-commands`)", true},
		"system.swap.in":       {"[all|device,pages|count|sectors]", swapTraffic("pswpin", 0), "read from swap since boot", false},
		"system.swap.out":      {"[all|device,pages|count|sectors]", swapTraffic("pswpout", 4), "written to swap since boot", false},
		"system.swap.size":     {"[all,free|total|used|pfree|pused]", swapSize, "swap in bytes, or its share in percent", false},
		"system.uname":         {"", uname, "name, host, release, version and architecture of the system", false},
		"system.uptime":        {"", uptime, "seconds since boot", false},
		"system.users.num":     {"", usersNumber, "number of users who are logged in", false},

		"vfs.dev.discovery": {"", discoverDevices, "JSON: the block devices", false},
		"vfs.dev.read":      {"[device,ops|sps|operations|sectors,avg1]", deviceTraffic(0), "reads: ops and sps a second since the last collection, operations and sectors since boot; no device: all", false},
		"vfs.dev.write":     {"[device,ops|sps|operations|sectors,avg1]", deviceTraffic(4), "writes, as vfs.dev.read", false},
		"vfs.dir.count":     {"[path,include,exclude,types,except,depth,least size,most size,least age,most age,excluded folders]", folderCount, "number of files below a folder; names by regular expressions", true},
		"vfs.dir.size":      {"[path,include,exclude,apparent|disk,depth,excluded folders]", folderSize, "bytes of the files and folders below a folder", true},
		"vfs.file.cksum":    {"[path,crc32|md5|sha256]", fileChecksum, "checksum of a file; crc32 as cksum(1)", true},
		"vfs.file.contents": {"[path,encoding]", fileContents, "text of a file, at most 64 KiB", true},
		"vfs.file.exists":   {"[path,types,except]", fileExists, "1 or 0; types are file (default), dir, sym, sock, bdev, cdev, dev, fifo, all", true},
		"vfs.file.md5sum":   {"[path]", fileChecksum, "MD5 checksum of a file", true},
		"vfs.file.regexp":   {"[path,regexp,encoding,first line,last line,output]", fileMatch, "the first line that matches, or the output with \\0 to \\9", true},
		"vfs.file.regmatch": {"[path,regexp,encoding,first line,last line]", fileMatch, "1 if a line matches, else 0", true},
		"vfs.file.size":     {"[path,bytes|lines]", fileSize, "size of a file", true},
		"vfs.file.time":     {"[path,modify|access|change]", fileTime, "time of a file, in seconds since 1970", true},
		"vfs.fs.discovery":  {"", discoverFileSystems, "JSON: the mounted file systems", false},
		"vfs.fs.get":        {"", fileSystems, "JSON: the mounted file systems with their sizes", true},
		"vfs.fs.inode":      {"[path,total|free|used|pfree|pused]", fileSystemInodes, "inodes of a file system", true},
		"vfs.fs.size":       {"[path,total|free|used|pfree|pused]", fileSystemSize, "size of a file system in bytes, or a share in percent", true},

		"web.certificate.get": {"[host,port,address]", webCertificate, "JSON: the certificate of a TLS server, and whether it is valid; as Zabbix agent 2", true},
		"web.page.get":        {"[host or URL,path,port]", webPage, "text of a page with its head; certificates are verified, redirects are not followed", true},
		"web.page.perf":       {"[host or URL,path,port]", webPageTime, "seconds until a page is there", true},
		"web.page.regexp":     {"[host or URL,path,port,regexp,length,output]", webPageMatch, "the first match in a page with its head, or the output with \\0 to \\9", true},

		"vm.memory.size": {"[total|free|available|pavailable|used|pused|buffers|cached|active|inactive|slab|anon]", memorySize, "memory in bytes, or a share in percent", false},
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
