package scenario

import (
	"cmp"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// Digits is the output of no plug-in: a sentence, and random digits up to the length.
const Digits = "digits"

// plugins are outputs of real plug-ins, by their names; # is any digit. OK first, then WARNING, CRITICAL and UNKNOWN.
var plugins = map[string][4]string{
	"ping": {
		"PING OK - Packet loss = 0%, RTA = 0.## ms|rta=0.###000ms;100.000000;500.000000;0.000000 pl=0%;20;60;0",
		"PING WARNING - Packet loss = 2#%, RTA = 1##.## ms|rta=1##.###000ms;100.000000;500.000000;0.000000 pl=2#%;20;60;0",
		"PING CRITICAL - Packet loss = 100%|rta=500.000000ms;100.000000;500.000000;0.000000 pl=100%;20;60;0",
		"check_ping: Invalid hostname/address - db#.example.org",
	},
	"disk": {
		"DISK OK - free space: / 3#### MB (4#.##% inode=9#%); /var 1#### MB (3#.##% inode=8#%);| /=2####MB;46###;52###;0;58### /var=1####MB;31###;35###;0;39###",
		"DISK WARNING - free space: / 6### MB (1#.##% inode=9#%); /var 1#### MB (3#.##% inode=8#%);| /=5####MB;46###;52###;0;58### /var=1####MB;31###;35###;0;39###",
		"DISK CRITICAL - free space: / 1### MB (1.##% inode=9#%); /var 1#### MB (3#.##% inode=8#%);| /=57###MB;46###;52###;0;58### /var=1####MB;31###;35###;0;39###",
		"DISK UNKNOWN - /mnt/backup is not accessible: Transport endpoint is not connected",
	},
	"load": {
		"OK - load average: 0.##, 0.##, 0.##|load1=0.##0;15.000;30.000;0; load5=0.##0;10.000;25.000;0; load15=0.##0;5.000;20.000;0;",
		"WARNING - load average: 17.##, 9.##, 4.##|load1=17.##0;15.000;30.000;0; load5=9.##0;10.000;25.000;0; load15=4.##0;5.000;20.000;0;",
		"CRITICAL - load average: 4#.##, 3#.##, 2#.##|load1=4#.##0;15.000;30.000;0; load5=3#.##0;10.000;25.000;0; load15=2#.##0;5.000;20.000;0;",
		"could not parse load from /proc/loadavg",
	},
	"http": {
		"HTTP OK: HTTP/1.1 200 OK - 1#### bytes in 0.### second response time |time=0.###2##s;;;0.000000 size=1####B;;;0",
		"HTTP WARNING: HTTP/1.1 404 Not Found - 5## bytes in 0.### second response time |time=0.###2##s;;;0.000000 size=5##B;;;0",
		"CRITICAL - Socket timeout after 10 seconds",
		"HTTP UNKNOWN - Could not resolve app#.example.org",
	},
	"memory": {
		"MEMORY OK - 4#.#% used| used=4#.#%;85;95",
		"MEMORY WARNING - 8#.#% used| used=8#.#%;85;95",
		"MEMORY CRITICAL - 9#.#% used| used=9#.#%;85;95",
		"could not parse MemAvailable from /proc/meminfo",
	},
	"ntp": {
		"NTP OK: Offset 0.00#### secs|offset=0.00####s;0.500000;2.000000;",
		"NTP WARNING: Offset 1.0##### secs|offset=1.0#####s;0.500000;2.000000;",
		"NTP CRITICAL: Offset 3.###### secs|offset=3.######s;0.500000;2.000000;",
		"NTP UNKNOWN: No response from NTP server ntp#.example.org",
	},
	"ssh": {
		"SSH OK - OpenSSH_10.0p2 Debian-7 (protocol 2.0) | time=0.00####s;;;0.000000;10.000000",
		"SSH WARNING - OpenSSH_7.4 (protocol 2.0) version mismatch, expected 'OpenSSH_10.0p2' | time=0.00####s;;;0.000000;10.000000",
		"connect to address 10.0.#.## and port 22: Connection refused",
		"check_ssh: Invalid hostname/address - db#.example.org",
	},
	"procs": {
		"PROCS OK: 1## processes | procs=1##;250;400;0;",
		"PROCS WARNING: 2## processes | procs=2##;250;400;0;",
		"PROCS CRITICAL: 0 processes with command name 'postgres' | procs=0;;1:;0;",
		"PROCS UNKNOWN: Unable to read output",
	},
	"mysql": {
		"Uptime: 8#####  Threads: 1#  Questions: 9#######  Slow queries: ###  Opens: 4####  Open tables: 2###  Queries per second avg: 11#.###|Connections=3#####c;;; Threads_connected=1#;;; Qcache_hits=0c;;; Queries=9#######c;;;",
		"Slave IO: Yes Slave SQL: Yes Seconds Behind Master: 1##|seconds_behind_master=1##s;60;600;0",
		"Can't connect to MySQL server on '10.0.#.##' (111)",
		"mysql plugin: unknown column in status answer",
	},
}

// Outputs returns the names of Output.Like.
func Outputs() []string {
	list := []string{Digits}
	for name := range plugins {
		list = append(list, name)
	}
	slices.Sort(list[1:])
	return list
}

// Words returns the output of the plug-in for a status; # stands for any digit; empty for Digits.
func Words(like string, status model.Status) string { return plugins[like][status&3] }

// Length returns the approximate length of the outputs, in bytes.
func (o Output) Length() int {
	return cmp.Or(int(o.Bytes), len(Words(cmp.Or(o.Like, Digits), model.OK)), 100)
}
