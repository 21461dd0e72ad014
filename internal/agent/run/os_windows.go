package run

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Built, not run: nobody has tried this on a Windows machine yet.

const rootDir = `C:\`

var programSuffixes = [...]string{"", ".exe", ".bat", ".cmd"}

func shellArgv(line string) []string {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	return []string{"cmd.exe", "/C", line}
}

func executable(file string) error {
	_, err := os.Stat(file)
	return err
}

func setUser(cmd *exec.Cmd, runAs string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	if runAs != "" {
		return errors.New("runAs " + runAs + ": not possible on Windows")
	}
	return nil
}

func homeOf(string) []string { return nil }

func terminateGroup(pid int) error {
	killGroup(pid)
	return nil
}

// killGroup ends the process alone: Windows has no process groups to kill.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func setNice(int, int) {}

func signalOf(*os.ProcessState) (string, int, bool) { return "", 0, false }
