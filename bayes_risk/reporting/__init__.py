"""What results say, shown: verdict, report, terminal, plots, redaction."""
