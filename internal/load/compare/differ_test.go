package compare

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Each thing that differs is named in one sentence, and says what it does.
func TestWhatDiffers(t *testing.T) {
	for _, x := range []struct {
		what   string
		change func(*report.Report)
		want   string // empty: nothing is said
	}{
		{"nothing", func(*report.Report) {}, ""},
		{"processor", func(r *report.Report) { r.Machine.CPU = "another" }, "The processors differ (a: a CPU; b: another): times"},
		{"cores", func(r *report.Report) { r.Machine.Cores = 8 }, "The number of cores differs (a: 2; b: 8)"},
		{"memory", func(r *report.Report) { r.Machine.Memory = 16 << 30 }, "(a: 8 GiB; b: 16 GiB)"},
		{"a page of memory", func(r *report.Report) { r.Machine.Memory -= 4096 }, ""},
		{"kernel", func(r *report.Report) { r.Machine.Kernel = "6.2" }, "The kernels differ (a: 6.1; b: 6.2): system calls"},
		{"Go", func(r *report.Report) { r.Machine.Go = "go1.27" }, "The versions of Go differ"},
		{"virtual", func(r *report.Report) { r.Environment.Virtual = "docker" }, "The kind of machine differs"},
		{"file system", func(r *report.Report) { r.Environment.FileSystem = "tmpfs" }, "The file systems of the data folders differ (a: ext4; b: tmpfs): fsync"},
		{"disk", func(r *report.Report) { r.Environment.Device = "/dev/sdb" }, "The disks of the data folders differ"},
		{"fsync", func(r *report.Report) { r.Environment.Fsync.P50 = 4 }, "an fsync took 1.00 ms before the runs of a, 4.00 ms before those of b"},
		{"fsync a little", func(r *report.Report) { r.Environment.Fsync.P50 = 1.3 }, ""},
		{"limit", func(r *report.Report) { r.Environment.Limits = map[string]string{"open files": "4096"} }, "A limit of the machine differs, open files (a: 1024; b: 4096)"},
		{"load before", func(r *report.Report) { r.Machine.Load = "3.50 1.00 1.00" }, "load 0.1 before the runs of a, 3.5 before those of b"},
		{"others", func(r *report.Report) { r.Others = 0.5 }, "others used 0.00 cores during a, 0.50 during b, of 2"},
		{"changes", func(r *report.Report) { r.Environment.Server["commit"] += " with changes" }, "b was built with changes that are not in 1234567890"},
		{"loader", func(r *report.Report) { r.Commit = "fedcba9876543210" }, "The load was made by different builds (a: 1234567890; b: fedcba9876)"},
		{"server alone", func(r *report.Report) { r.Environment.Server["commit"] = "fedcba9876543210" }, ""},
		{"settings", func(r *report.Report) { r.Environment.Server["flags"] = "--snapshot-cycle=30s" }, "different settings (a: none; b: --snapshot-cycle=30s)"},
		{"scenario", func(r *report.Report) { r.Scenario.Agents[0].Linger = 5 }, "The scenarios differ in agents (a "},
		{"fault", func(r *report.Report) { r.Scenario.Faults = []scenario.Fault{{Server: "kill"}} }, "The scenarios differ in faults (a "},
		{"short runs", func(r *report.Report) { r.Scenario = nil }, "The scenarios differ in agents, "},
		{"objectives alone", func(r *report.Report) { r.Scenario.Objectives = map[string]scenario.Limit{"p99": "1s"} }, ""},
		{"scale", func(r *report.Report) { r.Scenario.Scale = 0.5 }, "The scale differs (a: whole; b: 50 % of the agents)"},
		{"label", func(r *report.Report) { r.Label = []string{"shared connections"} }, "What has to be said with the figures differs (a: nothing; b: shared connections)"},
		{"seed", func(r *report.Report) { r.Plan.Seed = 2 }, "The seeds differ (a: 1; b: 2)"},
		{"plan", func(r *report.Report) { r.Plan.Digest = "fedcba9876543210" }, "The plans differ (a: 0123456789abcdef; b: fedcba9876543210), though scenario and seed do not"},
		{"plan of another seed", func(r *report.Report) { r.Plan.Seed, r.Plan.Digest = 2, "fedcba9876543210" }, "The seeds differ (a: 1; b: 2)"},
		{"plan that an older program did not say", func(r *report.Report) { r.Plan.Digest = "" }, ""},
		{"time", func(r *report.Report) { r.Plan.Duration = 600 }, "The measured times differ (a: 60; b: 600 seconds)"},
		{"target", func(r *report.Report) { r.Targeted = &report.Targeted{Name: "sensu", Version: "6.9.2"} }, "What was loaded differs (a: muster; b: sensu 6.9.2)"},
		{"loaders", func(r *report.Report) { r.Loaders = make([]report.Loader, 2) }, "by other numbers of processes (a: 1; b: 2)"},
		{"figure", func(r *report.Report) { r.Disk = nil }, "Not measured in b, and left out: disk-bytes."},
		{"invalid", func(r *report.Report) { r.Valid = r.Began.Unix()%120 == 0 }, "are left out: their generator fell behind"},
		{"order", func(r *report.Report) { r.Began = r.Began.Add(time.Hour) }, "All runs of a came before those of b"},
		{"does not say", func(r *report.Report) { r.Environment = nil }, ""},
	} {
		t.Run(x.what, func(t *testing.T) {
			a, b := set("a", 0, 0, 0, 0), set("b", 1, 0, 0, 0)
			for _, r := range b.Runs {
				x.change(r)
			}
			c := Compare(a, b)
			if x.what == "target" || x.what == "figure" || x.what == "scale" || x.what == "time" {
				// it brings others with it: another build, figures that are missing, another digest
				c.Differences = holding(c.Differences, x.want)
			}
			if x.want == "" && len(c.Differences) > 0 || x.want != "" && (len(c.Differences) != 1 || !strings.Contains(c.Differences[0], x.want)) {
				t.Errorf("got %q, want %q", c.Differences, x.want)
			}
		})
	}
}

func holding(list []string, what string) (out []string) {
	for _, l := range list {
		if strings.Contains(l, what) {
			out = append(out, l)
		}
	}
	return out
}

func TestRunsOfSeveralBuilds(t *testing.T) {
	a, b := set("a", 0, 0, 0, 0), set("b", 1, 0, 0, 0)
	b.Runs[1].Environment.Server["commit"] = "fedcba9876543210"
	c := Compare(a, b)
	if got := fmt.Sprint(c.Differences); len(c.Differences) != 1 || !strings.Contains(got, "The runs of b are of several builds (1234567890, fedcba9876)") {
		t.Errorf("%s", got)
	}
}
