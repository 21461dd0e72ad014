package testenv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Wine returns the program that runs programs for Windows, and its environment. That is an empty Windows in a temporary
// folder. Without Wine the test is skipped. The processes of that Windows end with the test.
func Wine(t testing.TB) (program string, env []string) {
	t.Helper()
	program = Program(t, "wine", "--no-install-recommends wine wine64")
	prefix := t.TempDir()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "DISPLAY=") {
			env = append(env, v)
		}
	}
	env = append(env, "WINEPREFIX="+prefix, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml,winemenubuilder.exe=")
	run := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	t.Cleanup(func() {
		kill := exec.Command("wineserver", "--kill")
		kill.Env = env
		_ = kill.Run() // it fails where the last program has ended already
		run("wineserver", "--wait")
	})
	run("wineboot", "--init")
	library := filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(library); errors.Is(err, fs.ErrNotExist) { // Wine before 9
		NoError(t, os.WriteFile(library, forwardingLibrary("bcryptprimitives.dll", "ProcessPrng", "advapi32.SystemFunction036"), 0o644))
	}
	return program, env
}

// forwardingLibrary returns a DLL for 64-bit Windows without code, with one function that another DLL has. Programs of Go
// need one that Wine 8 does not have.
func forwardingLibrary(library, function, target string) []byte {
	const (
		start   = 0x200  // of the section in the file
		address = 0x1000 // of the section in memory
		exports = 40     // bytes of the directory of exports
	)
	// The directory, then the tables of one address, one name and one number, then the texts.
	texts := exports + 12
	targetAt := address + uint32(texts)
	functionAt := targetAt + uint32(len(target)) + 1
	libraryAt := functionAt + uint32(len(function)) + 1
	var section bytes.Buffer
	put := func(b *bytes.Buffer, values ...any) {
		for _, v := range values {
			_ = binary.Write(b, binary.LittleEndian, v) // a bytes.Buffer takes all
		}
	}
	put(&section, uint32(0), uint32(0), uint32(0), libraryAt, uint32(1), uint32(1), uint32(1), uint32(address+exports), uint32(address+exports+4), uint32(address+exports+8))
	put(&section, targetAt, functionAt, uint16(0), uint16(0))
	section.WriteString(target + "\x00" + function + "\x00" + library + "\x00")

	var b bytes.Buffer
	put(&b, [60]byte{'M', 'Z'}, uint32(64), [4]byte{'P', 'E'})
	put(&b, uint16(0x8664), uint16(1), uint32(0), uint32(0), uint32(0), uint16(240), uint16(0x2022))                              // file: AMD64, one section, a DLL
	put(&b, uint16(0x20b), uint16(0), uint32(0), uint32(start), uint32(0), uint32(0), uint32(address))                            // PE32+
	put(&b, uint64(0x6ff000000), uint32(0x1000), uint32(0x200), uint16(6), uint16(0), uint32(0), uint16(6), uint16(0), uint32(0)) // base, alignments, versions
	put(&b, uint32(2*address), uint32(start), uint32(0), uint16(3), uint16(0x100), uint64(1<<20), uint64(1<<12), uint64(1<<20), uint64(1<<12), uint32(0), uint32(16))
	put(&b, uint32(address), uint32(section.Len()), [15]uint64{}) // directories: exports alone
	put(&b, [8]byte{'.', 'e', 'd', 'a', 't', 'a'}, uint32(section.Len()), uint32(address), uint32(start), uint32(start), uint32(0), uint32(0), uint32(0), uint32(0x40000040))
	data := make([]byte, 2*start)
	copy(data, b.Bytes())
	copy(data[start:], section.Bytes())
	return data
}
