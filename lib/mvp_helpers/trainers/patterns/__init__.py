"""What the lines of logs look like: ``lines`` has the kinds, ``of_trainers`` each trainer's, ``of_scripts`` those of scripts."""
