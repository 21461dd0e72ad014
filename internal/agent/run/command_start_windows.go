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

// checkExecutable returns an error if the file does not exist. Windows has no execute permission.
func checkExecutable(file string) error {
	_, err := os.Stat(file)
	return err
}

// setUser starts the command in a new process group, and returns an error if runAs names a user. Windows has no runAs.
func setUser(cmd *exec.Cmd, runAs string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	if runAs != "" {
		return errors.New("runAs " + runAs + ": not possible on Windows")
	}
	return nil
}

// homeVariables returns nothing on Windows, because commands cannot run as another user.
func homeVariables(string) []string { return nil }

// terminateGroup kills one process, because Windows has neither process groups nor SIGTERM.
func terminateGroup(pid int) error {
	killGroup(pid)
	return nil
}

// killGroup kills one process, because Windows has no process groups.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// setNice does nothing, because Windows processes have no nice value.
func setNice(int, int) {}

// signalOf returns no signal, because Windows ends no process by a signal.
func signalOf(*os.ProcessState) (string, int, bool) { return "", 0, false }
