package probe

// All returns all probes (checks that are built into the agent), sorted by name.
func All() []Probe {
	return []Probe{
		{Name: "agent", run: runAgent, Summary: "The agent itself: signals in its spool, results dropped or refused since the run before, its clock (a warning when it differs from the Muster server's by more than 5 s), and counts of runs.", Args: []Arg{
			{Name: "warn", Type: Free, Default: "50%", Help: "warning when less of the spool is free"},
			{Name: "crit", Type: Free, Default: "10%", Help: "critical when less is free"},
		}},
		{Name: "cert", run: runCert, Summary: "Expiry of a certificate: in a file, or of a TLS server.", Args: []Arg{
			{Name: "file", Type: Text, Help: "PEM file; the certificate that expires first counts"},
			{Name: "address", Type: Text, Help: "host:port of a TLS server"},
			{Name: "serverName", Type: Text, Help: "server name to request and verify; default: the host of address"},
			{Name: "verify", Type: Bool, Default: "true", Help: "critical when the server's chain or name does not verify"},
			{Name: "ca", Type: Text, Help: "PEM file to verify against; default: the system's"},
			{Name: "warn", Type: Duration, Default: "21d", Help: "warning when it expires within this time"},
			{Name: "crit", Type: Duration, Default: "7d", Help: "critical when it expires within this time"},
		}},
		{Name: "clock", run: runClock, Summary: "Offset of this machine's clock, compared with an NTP server, else the Muster server, else from the kernel.", Args: []Arg{
			{Name: "server", Type: Text, Help: "NTP server (host or host:port); default: compare with the Muster server"},
			{Name: "warn", Type: Duration, Default: "1s", Help: "warning above this offset"},
			{Name: "crit", Type: Duration, Default: "10s", Help: "critical above this offset"},
		}},
		{Name: "disk", run: runDisk, Summary: "Free space and inodes of mounted file systems, and the days until they are full.", Args: []Arg{
			{Name: "path", Type: List, Help: "mount points; default: every local file system that can be written"},
			{Name: "exclude", Type: List, Help: "mount points to exclude, as glob patterns"},
			{Name: "warn", Type: Free, Default: "10%", Help: "warning when less is free for ordinary users"},
			{Name: "crit", Type: Free, Default: "5%", Help: "critical when less is free"},
			{Name: "inodesWarn", Type: Free, Default: "10%", Unit: "inodes", Help: "warning when fewer inodes are free"},
			{Name: "inodesCrit", Type: Free, Default: "5%", Unit: "inodes", Help: "critical when fewer inodes are free"},
			{Name: "daysWarn", Type: Number, Unit: "days", Help: "warning when the disk fills up in fewer days, at the rate of the last day (available one hour after the agent's start)"},
			{Name: "daysCrit", Type: Number, Unit: "days", Help: "critical when the disk fills up in fewer days"},
		}},
		{Name: "file", run: runFile, Summary: "Existence, age and size of a file.", Args: []Arg{
			{Name: "path", Type: Text, Must: true, Help: "file or glob pattern; for several files the newest counts for age and each for size"},
			{Name: "exists", Type: Bool, Default: "true", Help: "false: critical when the file exists"},
			{Name: "warnAge", Type: Duration, Help: "warning when older (time of the last change of contents)"},
			{Name: "critAge", Type: Duration, Help: "critical when older"},
			{Name: "minSize", Type: Size, Help: "critical when smaller"},
			{Name: "maxSize", Type: Size, Help: "critical when larger"},
		}},
		{Name: "http", run: runHTTP, Summary: "An HTTP request: status, body, duration, and expiry of the server's certificate.", Args: []Arg{
			{Name: "url", Type: Text, Must: true, Help: "URL with http:// or https://"},
			{Name: "method", Type: Text, Default: "GET", Help: "request method"},
			{Name: "host", Type: Text, Help: "Host header, if it differs from the URL"},
			{Name: "status", Type: List, Default: "200-399", Help: "expected statuses: 200, 301-302; redirects are followed only with follow: true"},
			{Name: "follow", Type: Bool, Default: "false", Help: "follow redirects, at most ten"},
			{Name: "body", Type: Regexp, Help: "regular expression that the first MiB of the body must match"},
			{Name: "bodyNot", Type: Regexp, Help: "regular expression that the first MiB of the body must not match"},
			{Name: "warn", Type: Duration, Help: "warning when it takes longer"},
			{Name: "crit", Type: Duration, Help: "critical when it takes longer"},
			{Name: "certWarn", Type: Duration, Default: "21d", Help: "warning when the certificate expires within this time"},
			{Name: "certCrit", Type: Duration, Default: "7d", Help: "critical when the certificate expires within this time"},
			{Name: "verify", Type: Bool, Default: "true", Help: "critical when the server's certificate does not verify"},
			{Name: "ca", Type: Text, Help: "PEM file to verify against; default: the system's"},
		}},
		{Name: "load", run: runLoad, Summary: "Load average over 1, 5 and 15 minutes, per CPU.", Args: []Arg{
			{Name: "warn", Type: List, Default: "4, 2, 1.5", Unit: "per CPU", Help: "warning above these (1, 5, 15 minutes; one number counts for all)"},
			{Name: "crit", Type: List, Default: "8, 4, 3", Unit: "per CPU", Help: "critical above these"},
			{Name: "perCPU", Type: Bool, Default: "true", Help: "divide the load by the number of CPUs"},
		}},
		freeProbe("memory", "Memory available to programs (the kernel's MemAvailable).", "available", "10%", "5%", availableMemory),
		{Name: "processes", run: runProcesses, Summary: "Number of processes, all or of one name, and number of zombies.", Args: []Arg{
			{Name: "name", Type: Text, Help: "count only processes of this program (file name, without folder)"},
			{Name: "warn", Type: Range, Help: "warning when the count is outside this range"},
			{Name: "crit", Type: Range, Help: "critical when the count is outside this range; with name the default is 1: (at least one)"},
			{Name: "zombiesWarn", Type: Number, Default: "20", Help: "warning above this many zombies"},
			{Name: "zombiesCrit", Type: Number, Help: "critical above this many zombies"},
		}},
		{Name: "prometheus", run: runPrometheus, Summary: "A scrape of an exporter of Prometheus: each number of its page is a sample of a series. Critical when there is no page, or it has more than 10,000 series.", Args: []Arg{
			{Name: "url", Type: Text, Must: true, Help: "URL of the page: http://localhost:9100/metrics"},
			{Name: "keep", Type: Regexp, Help: "keep only series whose text on the page matches: ^node_(cpu|load)"},
			{Name: "drop", Type: Regexp, Help: "leave out series whose text on the page matches"},
			{Name: "user", Type: Text, Help: "user of basic authentication"},
			{Name: "passwordFile", Type: Text, Help: "file on the node with the password"},
			{Name: "tokenFile", Type: Text, Help: "file on the node with a bearer token"},
			{Name: "verify", Type: Bool, Default: "true", Help: "critical when the server's certificate does not verify"},
			{Name: "ca", Type: Text, Help: "PEM file to verify against; default: the system's"},
		}},
		{Name: "reboot", run: runReboot, Summary: "Pending reboot: the distribution's flag file, or a kernel newer than the running one.", Args: []Arg{{Name: "status", Type: Text, Default: "warning", Help: "status while a reboot is pending: ok, warning or critical"}}},
		freeProbe("swap", "Free swap space. A machine without swap is OK.", "free", "50%", "20%", freeSwap),
		{Name: "systemd", run: runSystemd, Summary: "Failed units of systemd. A machine without systemd is OK.", Args: []Arg{
			{Name: "exclude", Type: List, Help: "units that may fail, as glob patterns"},
			{Name: "unit", Type: List, Help: "critical only for these (glob patterns); other failed units are a warning"},
		}},
		{Name: "tcp", run: runTCP, Summary: "Connection to a TCP port: success, duration, answer.", Args: []Arg{
			{Name: "address", Type: Text, Must: true, Help: "host:port"},
			{Name: "send", Type: Text, Help: `text to send; \r and \n have their usual meaning`},
			{Name: "expect", Type: Text, Help: "text that the answer must contain"},
			{Name: "warn", Type: Duration, Help: "warning when it takes longer"},
			{Name: "crit", Type: Duration, Help: "critical when it takes longer"},
		}},
	}
}
