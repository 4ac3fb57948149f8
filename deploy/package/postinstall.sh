#!/bin/sh
# Makes the user of the agent and its directories, where systemd is there to make them. Starts nothing.
set -e
if [ -z "${DPKG_ROOT:-}" ] && command -v systemd-sysusers >/dev/null && command -v systemd-tmpfiles >/dev/null; then
  systemd-sysusers proofload.conf
  systemd-tmpfiles --create proofload.conf
fi
