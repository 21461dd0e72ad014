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

// shellArgv returns the command line that runs a shell line by cmd.exe.
func shellArgv(line string) []string {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	return []string{"cmd.exe", "/C", line}
}

// executable returns an error unless the file exists: Windows has no execute permission.
func executable(file string) error {
	_, err := os.Stat(file)
	return err
}

// setUser puts the command into its own process group, and refuses to run it as another user.
func setUser(cmd *exec.Cmd, runAs string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	if runAs != "" {
		return errors.New("runAs " + runAs + ": not possible on Windows")
	}
	return nil
}

// homeOf returns nothing: commands keep the agent's home, because runAs is not possible on Windows.
func homeOf(string) []string { return nil }

// terminateGroup kills one process: the variant for Windows, where processes have neither groups nor SIGTERM.
func terminateGroup(pid int) error {
	killGroup(pid)
	return nil
}

// killGroup kills one process: the variant for Windows, where processes have no groups.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// setNice does nothing: the variant for Windows, where processes have no nice value.
func setNice(int, int) {}

// signalOf returns no signal: the variant for Windows, where no signal ends a process.
func signalOf(*os.ProcessState) (string, int, bool) { return "", 0, false }
