package demo

import (
	"fmt"
	"math"

	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/model"
)

// words generates plausible plug-in outputs. About one machine in forty has a lasting problem, and one in thirty a
// problem that comes and goes over some minutes.
type words struct{}

// mood returns a number fixed for one check of one machine, and a value from 0 to 1 that changes slowly between
// results.
func (words) mood(a, c int, seq uint64) (fixed uint64, wave float64) {
	fixed = outputs.Mix(uint64(a)<<8 | uint64(c))
	runs := float64(seq%(1<<48)) / 50
	return fixed, math.Sin(runs/float64(20+fixed%13)+float64(fixed%628)/100)/2 + 0.5
}

// Status returns the status of a result.
func (d words) Status(a, c int, definition *model.CheckDefinition, seq uint64, _ model.Status, _ bool) model.Status {
	fixed, wave := d.mood(a, c, seq)
	trouble := 0.0
	switch {
	case fixed%240 == 1:
		trouble = 1
	case fixed%180 == 2:
		trouble = wave
	}
	switch {
	case trouble > 0.9, trouble > 0.7 && definition.Name == "ssh":
		return model.Critical
	case trouble > 0.7:
		return model.Warning
	}
	return model.OK
}

// Output returns the output of a result, in the style of the check's plug-in.
func (d words) Output(dst []byte, a, c int, definition *model.CheckDefinition, seq uint64, status model.Status) []byte {
	fixed, wave := d.mood(a, c, seq)
	level := float64(status) // OK 0, WARNING 1, CRITICAL 2
	switch definition.Name {
	case "disk":
		used := min(99, 35+25*outputs.Share(outputs.Mix(fixed))+4*wave+[...]float64{0, 20, 32}[status])
		return fmt.Appendf(dst, "DISK %s - free space: / %.0f MiB (%.0f%%)| /=%.0fMB;32768;36864;0;40960", status, 409.6*(100-used), 100-used, 409.6*used)
	case "memory":
		used := min(99.5, 40+20*outputs.Share(outputs.Mix(fixed))+10*wave+25*level)
		return fmt.Appendf(dst, "MEMORY %s - %.1f%% used| used=%.1f%%;85;95", status, used, used)
	case "cpu-load":
		load := 0.2 + 0.6*wave + 1.6*level
		return fmt.Appendf(dst, "LOAD %s - scaled load average: %.2f, %.2f, %.2f| load1=%.2f;2;4 load5=%.2f;1.5;3 load15=%.2f;1;2",
			status, load, load*0.9, load*0.8, load, load*0.9, load*0.8)
	case "clock":
		offset := (wave-0.5)/100 + 1.1*level
		return fmt.Appendf(dst, "NTP %s: Offset %.6f secs| offset=%.6fs;0.5;2", status, offset, offset)
	case "ssh":
		if status != model.OK {
			return append(dst, "connect to address 127.0.0.1 and port 22: Connection refused"...)
		}
		return fmt.Appendf(dst, "SSH OK - OpenSSH_10.0p2 Debian-7 (protocol 2.0) | time=%.6fs;;;0", 0.004+wave/200)
	default:
		age := 3600 + 80000*outputs.Share(outputs.Mix(fixed+seq/40)) + 50000*level
		return fmt.Appendf(dst, "FILE_AGE %s: /var/backups/latest is %.0f seconds old| age=%.0fs;90000;180000", status, age, age)
	}
}
